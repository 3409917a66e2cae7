#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "distbelief/report/phases.h"

namespace distbelief::run {

inline constexpr const char* kSaving = "saving";  // a state that may last any time

// The lanes that a worker carries, readable by other threads.
class LanesShown {
 public:
  void show(std::vector<std::int64_t> lanes) {
    const std::lock_guard lock(mutex_);
    lanes_ = std::move(lanes);
  }
  std::vector<std::int64_t> shown() const {
    const std::lock_guard lock(mutex_);
    return lanes_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::int64_t> lanes_;
};

// The state that a worker's training thread publishes while it works; any thread may read it.
struct Vitals {
  std::atomic<const char*> state{"starting"};  // or ready, training, validating, paused, saving
  std::atomic<report::Phase> phase{report::Phase::kOther};
  std::atomic<std::int64_t> step{-1};       // steps done
  std::atomic<std::int64_t> from_step{-1};  // first step of this generation; -1: not started
  std::atomic<std::int64_t> epoch{0};
  LanesShown lanes;  // lanes of this worker
  std::atomic<std::int64_t> snapshot_step{-1};
  std::atomic<std::int64_t> checkpoint_step{-1};
  std::atomic<double> loss{0};
  std::atomic<double> step_seconds{0};  // of the last step
  std::atomic<double> busy_seconds{0};  // of step_seconds, without waits for others
  std::atomic<double> samples_per_second{0};
  std::atomic<bool> forgotten{false};  // the run is over, and its host keeps nothing of it
  std::atomic<double> slowness{1};     // a straggler's time per lane relative to the others'; otherwise 1
};

// A distribution of lanes over the workers, ordered during training. A later order replaces an earlier one.
struct LaneOrder {
  std::int64_t serial = 0;     // number of the order: 1, 2, ...
  int threads = 1;             // per worker
  std::vector<int> resting{};  // workers without lanes
};

// Passes the newest order of a kind from the thread that receives it to the training thread.
template <typename Order>
class Newest {
 public:
  void give(Order order) {
    const std::lock_guard lock(mutex_);
    newest_ = std::move(order);
  }
  Order newest() const {
    const std::lock_guard lock(mutex_);
    return newest_;
  }

 private:
  mutable std::mutex mutex_;
  Order newest_{};
};

// Orders to a worker; the training thread checks them before each step.
struct Orders {
  std::atomic<bool> stop{false};
  std::atomic<bool> pause{false};      // until it is reset
  std::atomic<bool> hand_over{false};  // to the next generation, which is ready
  Newest<LaneOrder> lanes;             // serial 0: no order
  // Current addresses of the parameter servers; empty: unchanged since the start.
  Newest<std::vector<std::string>> servers;
};

}  // namespace distbelief::run
