#pragma once

#include <cstdint>
#include <memory>

namespace distbelief::planner {

// Counts the bytes that tensors of this thread allocate and free during its lifetime, starting at 0. Counts
// tensors only, not a library's internal buffers. Create and destroy it on one thread.
class MemoryMeter {
 public:
  MemoryMeter();
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  std::int64_t held() const;
  // The maximum held since the last begin_peak().
  std::int64_t peak() const;
  void begin_peak() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
  struct Scope;
  std::unique_ptr<Scope> scope_;
};

}  // namespace distbelief::planner
