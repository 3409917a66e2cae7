#pragma once

#include <chrono>

namespace distbelief::mesh {

// Receives the time spans that a carrier or a host's exchange spent on its work, for traces. Called on the
// thread that did the work.
class Observer {
 public:
  using Time = std::chrono::steady_clock::time_point;
  virtual ~Observer() = default;
  virtual void span(const char* what, int bucket, Time begin, Time end) = 0;
};

}  // namespace distbelief::mesh
