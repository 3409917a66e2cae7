#pragma once

#include <chrono>

#include "distbelief/mesh/observer.h"

namespace distbelief::mesh {

// RAII timer: adds the time until the end of its scope to `total` and reports it to the observer, which may
// be null.
class Timed {
 public:
  Timed(std::chrono::nanoseconds& total, Observer* observer, const char* what, int bucket)
      : total_(total),
        observer_(observer),
        what_(what),
        bucket_(bucket),
        begin_(std::chrono::steady_clock::now()) {}
  ~Timed() {
    const auto end = std::chrono::steady_clock::now();
    total_ += end - begin_;
    if (observer_) observer_->span(what_, bucket_, begin_, end);
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  std::chrono::nanoseconds& total_;
  Observer* observer_;
  const char* what_;
  int bucket_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace distbelief::mesh
