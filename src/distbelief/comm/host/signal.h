#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace distbelief::comm {

// A counter in shared memory that one member raises and others wait for; it only goes up (and wraps).
struct alignas(64) Signal {
  std::atomic<std::uint32_t> value{0};
  std::atomic<std::uint32_t> sleepers{0};

  bool reached(std::uint32_t wanted) const {
    return static_cast<std::int32_t>(value.load(std::memory_order_acquire) - wanted) >= 0;
  }
  // Publishes everything written before it to whoever sees the new value; wakes sleepers.
  void raise(std::uint32_t new_value);
};

// Set once by the first member that fails, seen by all who wait.
struct alignas(64) AbortRecord {
  std::atomic<std::int32_t> state{0};  // 0 free, 1 being written, 2 readable
  std::int32_t rank = -1;
  char message[496] = {};

  // Whether this was the first failure.
  bool set(int failed_rank, const std::string& text);
  bool is_set() const { return state.load(std::memory_order_acquire) == 2; }
  // Throws Error(kAborted) with the rank and its message when set.
  void check() const;
};

// What a wait is for; a timeout says it.
struct WaitReason {
  int rank = -1;  // of the member that is awaited
  const char* operation = "";
  std::int64_t step = -1;
};

// How one member waits: spins for a moment (not when there are more members than cores), then sleeps
// in the kernel. Throws Error(kTimeout) at the deadline, Error(kAborted) when another member failed.
class Waiter {
 public:
  Waiter(const AbortRecord& abort, std::chrono::nanoseconds deadline, std::chrono::nanoseconds spin)
      : abort_(&abort),
        deadline_(deadline),
        spin_(spin) {}

  void wait(Signal& signal, std::uint32_t wanted, const WaitReason& reason) const {
    if (!signal.reached(wanted)) wait_slowly(signal, wanted, reason);
  }

 private:
  void wait_slowly(Signal& signal, std::uint32_t wanted, const WaitReason& reason) const;
  const AbortRecord* abort_;
  std::chrono::nanoseconds deadline_;
  std::chrono::nanoseconds spin_;
};

}  // namespace distbelief::comm
