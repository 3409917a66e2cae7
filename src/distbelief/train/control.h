#pragma once

#include <atomic>

#include "distbelief/mesh/team.h"
#include "distbelief/run/run_progress.h"
#include "distbelief/run/vitals.h"

namespace distbelief::train {

struct ControlOptions {
  run::Vitals* vitals = nullptr;  // shown to others; borrowed, as are the next; each may be null
  run::Orders* orders = nullptr;  // from others
  const std::atomic<bool>* stop_requested = nullptr;  // set by a signal
};

// The training thread's side of Vitals and Orders: what it shows of itself, and what others ask of it.
class Control {
 public:
  explicit Control(const ControlOptions& options) : options_(options) {}

  // Shows the worker's activity: a constant such as kSaving.
  void show(const char* state);
  // It works on, with lanes of its own or without.
  void show_working() { show(working_state_); }
  void show_lanes(const std::vector<std::int64_t>& lanes);
  void show_start(std::int64_t step);
  struct StepTime {
    double seconds = 0;
    double busy_seconds = 0;  // without waiting for others
    std::int64_t samples = 0;
  };
  void show_step(const run::RunProgress& progress, const StepTime& time);
  void show_snapshot(std::int64_t step);
  void show_checkpoint(std::int64_t step);
  void show_slowness(double times);

  // Stop, pause and hand over; the others are not set.
  mesh::LaneNotes wishes() const;
  bool has_lane_order_after(std::int64_t serial) const;
  run::LaneOrder lane_order() const { return options_.orders->lanes.newest(); }
  bool takes_orders() const { return options_.orders != nullptr; }
  // Returns when the pause is taken back or the run is to stop. All workers get the same order and wait here;
  // the first that goes on waits for the others in its next step.
  void wait_while_paused() const;

 private:
  ControlOptions options_;
  const char* working_state_ = "training";
};

}  // namespace distbelief::train
