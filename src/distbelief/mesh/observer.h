#pragma once

#include <chrono>

namespace distbelief::mesh {

// Is told what a carrier, or a host's exchange, spent its time on; for traces. Called on the thread
// that did the work.
class Observer {
 public:
  using Time = std::chrono::steady_clock::time_point;
  virtual ~Observer() = default;
  virtual void span(const char* what, int bucket, Time begin, Time end) = 0;
};

}  // namespace distbelief::mesh
