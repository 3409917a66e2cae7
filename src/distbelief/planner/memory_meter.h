#pragma once

#include <cstdint>
#include <memory>

namespace distbelief::planner {

// While it lives, counts the bytes that tensors of this thread take and give back, from 0 on; what was there
// before does not count. Tensors only: a library's own buffers are not seen. Made and destroyed on one
// thread.
class MemoryMeter {
 public:
  MemoryMeter();
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  std::int64_t held() const;
  // The most that was held since the last begin_peak().
  std::int64_t peak() const;
  void begin_peak() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
  struct Scope;
  std::unique_ptr<Scope> scope_;
};

}  // namespace distbelief::planner
