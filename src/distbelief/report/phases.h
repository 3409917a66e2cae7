#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <string_view>

namespace distbelief::report {

// The activities of a worker's main thread during a step.
enum class Phase { kData, kForward, kBackward, kExchange, kUpdate, kOther };
inline constexpr std::size_t kPhaseCount = 6;
using PhaseSeconds = std::array<double, kPhaseCount>;

std::string_view to_string(Phase phase);  // "data", "forward", ...

// Adds up the time spent in each phase. Exactly one phase runs at any time, kOther at first, so the totals
// cover all time. One clock reading per switch; not thread-safe.
class PhaseClock {
 public:
  using Clock = std::chrono::steady_clock;

  explicit PhaseClock(Clock::time_point now = Clock::now()) : since_(now) {}

  // Publishes the running phase to another thread; null: does not.
  void show_in(std::atomic<Phase>* shown) { shown_ = shown; }

  // Ends the running phase and begins another. Returns the clock reading, so that a trace can use it.
  Clock::time_point start(Phase phase) { return start(phase, Clock::now()); }
  Clock::time_point start(Phase phase, Clock::time_point now) {
    totals_[index(running_)] += now - since_;
    running_ = phase;
    since_ = now;
    if (shown_ != nullptr) shown_->store(phase, std::memory_order_relaxed);
    return now;
  }

  // Totals since the last reset, the running phase included.
  PhaseSeconds seconds() const { return seconds(Clock::now()); }
  PhaseSeconds seconds(Clock::time_point now) const {
    PhaseSeconds result;
    for (std::size_t i = 0; i < kPhaseCount; ++i)
      result[i] = std::chrono::duration<double>(totals_[i]).count();
    result[index(running_)] += std::chrono::duration<double>(now - since_).count();
    return result;
  }

  // Resets the totals; the running phase continues.
  void reset() { reset(Clock::now()); }
  void reset(Clock::time_point now) {
    totals_ = {};
    since_ = now;
  }

 private:
  static constexpr std::size_t index(Phase phase) { return static_cast<std::size_t>(phase); }

  std::array<Clock::duration, kPhaseCount> totals_{};
  Phase running_ = Phase::kOther;
  std::atomic<Phase>* shown_ = nullptr;
  Clock::time_point since_;
};

}  // namespace distbelief::report
