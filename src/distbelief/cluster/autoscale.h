#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace distbelief::cluster {

// The numbers of workers from `min` to `max` that can differ in speed. A step takes as long as the thread
// with the most lanes, so among numbers with an equal maximum only the smallest counts. Pure.
std::vector<int> worker_counts(int lanes, int threads, int min, int max);

// Steps per second, measured per number of workers.
using Speeds = std::map<int, double>;

struct AutoscaleDecision {
  int workers = 1;       // to use next
  bool settled = false;  // no measurement is left to do
  std::string reason;
};

// Decides on the number of workers after `now` of them were measured. Goes up when the added workers bring at
// least half of what as many bring now, down when they bring less than 0.3 of it, and stays in between.
// Terminates, because a number is tried once, and measured speeds allow each step between two numbers in one
// direction only. Pure.
AutoscaleDecision decide_workers(const std::vector<int>& counts, int now, const Speeds& speeds);

// Measures steps per second from reports, after a warm-up that does not count. Used by one thread.
class SpeedGauge {
 public:
  using Clock = std::chrono::steady_clock;
  explicit SpeedGauge(std::chrono::duration<double> window) : window_(window) {}

  void restart() { began_.reset(); }
  // Returns the speed once, when the window is full.
  std::optional<double> note(std::int64_t step, Clock::time_point now);

 private:
  struct Mark {
    Clock::time_point time;
    std::int64_t step;
  };
  std::chrono::duration<double> window_;
  std::optional<Mark> began_;
  bool warm_ = false;  // began_ is the start of the measurement
};

}  // namespace distbelief::cluster
