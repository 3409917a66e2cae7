#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace distbelief::cluster {

// The numbers of workers from `min` to `max` that can differ in speed: a step takes as long as the thread
// with the most lanes, so of those that leave it as many lanes the smallest. Pure.
std::vector<int> worker_counts(int lanes, int threads, int min, int max);

// Steps per second that numbers of workers have shown.
using Speeds = std::map<int, double>;

struct AutoscaleDecision {
  int workers = 1;       // to have next
  bool settled = false;  // nothing is left to find out
  std::string reason;
};

// How many workers to have after `now` of them were measured. One number up pays when the added workers bring
// at least half of what as many bring now, and does not when they bring less than 0.3 of it; in between it
// stays as it is. A number is tried once, and each step between two numbers is only ever taken in one
// direction on what was measured, so this ends. Pure.
AutoscaleDecision decide_workers(const std::vector<int>& counts, int now, const Speeds& speeds);

// Measures steps per second from what is reported, after a while that does not count. One thread.
class SpeedGauge {
 public:
  using Clock = std::chrono::steady_clock;
  explicit SpeedGauge(std::chrono::duration<double> window) : window_(window) {}

  void restart() { began_.reset(); }
  // Something once, when the window is full.
  std::optional<double> note(std::int64_t step, Clock::time_point now);

 private:
  struct Mark {
    Clock::time_point time;
    std::int64_t step;
  };
  std::chrono::duration<double> window_;
  std::optional<Mark> began_;
  bool warm_ = false;  // began_ is where the measurement starts
};

}  // namespace distbelief::cluster
