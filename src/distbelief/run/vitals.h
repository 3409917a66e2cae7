#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "distbelief/report/phases.h"

namespace distbelief::run {

inline constexpr const char* kSaving = "saving";  // a state that may take its time

// The lanes that a worker carries, for whoever asks.
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

// What a worker's training thread shows of itself while it works; any thread may read it.
struct Vitals {
  std::atomic<const char*> state{"starting"};  // or ready, training, validating, paused, saving
  std::atomic<report::Phase> phase{report::Phase::kOther};
  std::atomic<std::int64_t> step{-1};       // steps done
  std::atomic<std::int64_t> from_step{-1};  // where this generation began; -1: it has not
  std::atomic<std::int64_t> epoch{0};
  LanesShown lanes;  // that it carries
  std::atomic<std::int64_t> snapshot_step{-1};
  std::atomic<std::int64_t> checkpoint_step{-1};
  std::atomic<double> loss{0};
  std::atomic<double> step_seconds{0};  // of the last step
  std::atomic<double> busy_seconds{0};  // of it, without waiting for others
  std::atomic<double> samples_per_second{0};
  std::atomic<bool> forgotten{false};  // the run is over, and its host keeps nothing of it
  std::atomic<double> slowness{1};     // of a straggler: times as long for a lane as the others; else 1
};

// How the workers are to carry the lanes, while they train. A later order takes the place of an earlier one.
struct LaneOrder {
  std::int64_t serial = 0;     // which order it is: 1, 2, ...
  int threads = 1;             // of each worker
  std::vector<int> resting{};  // workers that carry none
};

// Hands the newest order of a kind from the thread that hears it to the one that trains.
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

// What others ask of a worker; the training thread looks at it before each step.
struct Orders {
  std::atomic<bool> stop{false};
  std::atomic<bool> pause{false};            // until it is taken back
  std::atomic<bool> hand_over{false};        // to the next generation, which is ready
  Newest<LaneOrder> lanes;                   // serial 0: there was none
  Newest<std::vector<std::string>> servers;  // where parameter servers listen by now; none: as at the start
};

}  // namespace distbelief::run
