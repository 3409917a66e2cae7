#include "distbelief/comm/host/signal.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstring>

#include "distbelief/base/error.h"
#include "distbelief/comm/idle_work.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace distbelief::comm {
namespace {

using Clock = std::chrono::steady_clock;

// std::atomic::wait works only within a process; between processes the futex must not be private. `at_most`
// is less than a second.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::nanoseconds at_most) {
  const timespec timeout{.tv_sec = 0, .tv_nsec = at_most.count()};
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

bool spin_until(const Signal& signal, std::uint32_t wanted, std::chrono::nanoseconds spin) {
  if (spin.count() <= 0) return false;
  const auto end = Clock::now() + spin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (signal.reached(wanted)) return true;
      relax();
    }
  } while (Clock::now() < end);
  return false;
}

}  // namespace

void Signal::raise(std::uint32_t new_value) {
  value.store(new_value, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) != 0) futex_wake(value);
}

bool AbortRecord::set(int failed_rank, const Error& error) {
  std::int32_t expected = 0;
  if (!state.compare_exchange_strong(expected, 1)) return false;
  rank = failed_rank;
  code = error.code();
  error_rank = error.where().rank;
  error_step = error.where().step;
  std::strncpy(operation, error.where().operation.c_str(), sizeof(operation) - 1);
  std::strncpy(message, error.message().c_str(), sizeof(message) - 1);
  state.store(2, std::memory_order_release);
  return true;
}

void AbortRecord::check(int own_rank) const {
  if (!is_set()) return;
  const Error error(code, message, {.rank = error_rank, .operation = operation, .step = error_step});
  if (rank == own_rank && code != ErrorCode::kAborted) throw error;
  throw Error(ErrorCode::kAborted, fmt::format("stopped because worker {} failed: {}", rank, error.what()));
}

void Waiter::wait_slowly(Signal& signal, std::uint32_t wanted, const WaitReason& reason,
                         const Begun& begun) const {
  constexpr std::chrono::milliseconds kLook{50};  // how often a sleeper checks for an abort and the deadline
  constexpr std::chrono::microseconds kIdleLook{100};  // the same while there is idle work
  if (spin_until(signal, wanted, spin_)) return;
  auto start = Clock::now();
  bool counts = !begun;
  while (!signal.reached(wanted)) {
    abort_->check(own_rank_);
    if (IdleWork::do_some()) continue;
    if (!counts) {
      start = Clock::now();
      counts = begun();
    }
    if (Clock::now() - start > deadline_)
      throw Error(
          ErrorCode::kTimeout,
          fmt::format(
              "worker {} did not get to '{}' within {:.1f} s; it may have died, hung, or be much slower "
              "(parallel.deadline_seconds sets how long to wait)",
              reason.rank, reason.operation, std::chrono::duration<double>(deadline_).count()),
          {.rank = reason.rank, .operation = reason.operation, .step = reason.step});
    signal.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t seen = signal.value.load(std::memory_order_seq_cst);
    if (static_cast<std::int32_t>(seen - wanted) < 0)
      futex_wait(signal.value, seen, IdleWork::is_there() ? std::chrono::nanoseconds(kIdleLook) : kLook);
    signal.sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }
}

}  // namespace distbelief::comm
