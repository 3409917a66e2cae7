#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "distbelief/base/error.h"

namespace distbelief::comm {

// A counter in shared memory that one member raises and others wait for. It only increases (and wraps).
struct alignas(64) Signal {
  std::atomic<std::uint32_t> value{0};
  std::atomic<std::uint32_t> sleepers{0};

  bool reached(std::uint32_t wanted) const {
    return static_cast<std::int32_t>(value.load(std::memory_order_acquire) - wanted) >= 0;
  }
  // Publishes all earlier writes to every member that sees the new value; wakes sleepers.
  void raise(std::uint32_t new_value);
};

// Set once by the first member that fails; every waiting member sees it.
struct alignas(64) AbortRecord {
  std::atomic<std::int32_t> state{0};  // 0 free, 1 being written, 2 readable
  std::int32_t rank = -1;              // the rank that failed; the other fields describe its error
  ErrorCode code = ErrorCode::kAborted;
  std::int32_t error_rank = -1;
  std::int64_t error_step = -1;
  char operation[64] = {};
  char message[496] = {};

  // Returns whether this was the first failure. `text` describes an error that the worker itself throws.
  bool set(int failed_rank, const std::string& text) {
    return set(failed_rank, Error(ErrorCode::kAborted, text));
  }
  // Records an error met by a background thread of the worker: the worker's next wait throws it unchanged.
  bool set(int failed_rank, const Error& error);
  bool is_set() const { return state.load(std::memory_order_acquire) == 2; }
  // When set, throws the recorded error if it is `own_rank`'s, and otherwise Error(kAborted) with the failed
  // rank and its message.
  void check(int own_rank) const;
};

// The purpose of a wait, for the message of a timeout.
struct WaitReason {
  int rank = -1;  // of the awaited member
  const char* operation = "";
  std::int64_t step = -1;
};

// How one member waits: it spins for a moment (not when there are more members than cores), then sleeps in
// the kernel. Throws Error(kTimeout) at the deadline and Error(kAborted) when another member failed.
class Waiter {
 public:
  // `own_rank`: the rank of the waiting worker.
  Waiter(const AbortRecord& abort, std::chrono::nanoseconds deadline, std::chrono::nanoseconds spin,
         int own_rank = -1)
      : abort_(&abort),
        deadline_(deadline),
        spin_(spin),
        own_rank_(own_rank) {}

  // Whether the deadline has begun to count; polled now and then.
  using Begun = std::function<bool()>;

  // The deadline counts from now.
  void wait(Signal& signal, std::uint32_t wanted, const WaitReason& reason) const {
    if (!signal.reached(wanted)) wait_slowly(signal, wanted, reason, {});
  }
  // The deadline counts from the time at which `begun` returns true.
  void wait(Signal& signal, std::uint32_t wanted, const WaitReason& reason, const Begun& begun) const {
    if (!signal.reached(wanted)) wait_slowly(signal, wanted, reason, begun);
  }

 private:
  void wait_slowly(Signal& signal, std::uint32_t wanted, const WaitReason& reason, const Begun& begun) const;
  const AbortRecord* abort_;
  std::chrono::nanoseconds deadline_;
  std::chrono::nanoseconds spin_;
  int own_rank_;
};

}  // namespace distbelief::comm
