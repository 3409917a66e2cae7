#include "distbelief/train/control.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace distbelief::train {

void Control::show(const char* state) {
  if (options_.vitals) options_.vitals->state = state;
}

void Control::show_lanes(const std::vector<std::int64_t>& lanes) {
  working_state_ = lanes.empty() ? "paused" : "training";
  if (options_.vitals) options_.vitals->lanes.show(lanes);
}

void Control::show_start(std::int64_t step) {
  if (options_.vitals) options_.vitals->from_step = options_.vitals->step = step;
}

void Control::show_step(const run::RunProgress& progress, const StepTime& time) {
  if (options_.vitals == nullptr) return;
  run::Vitals& vitals = *options_.vitals;
  vitals.step = progress.step;
  vitals.epoch = progress.epoch;
  vitals.loss = progress.last_loss;
  vitals.step_seconds = time.seconds;
  vitals.busy_seconds = time.busy_seconds;
  vitals.samples_per_second = double(time.samples) / std::max(1e-9, time.seconds);
}

void Control::show_snapshot(std::int64_t step) {
  if (options_.vitals) options_.vitals->snapshot_step = step;
}

void Control::show_checkpoint(std::int64_t step) {
  if (options_.vitals) options_.vitals->checkpoint_step = step;
}

void Control::show_slowness(double times) {
  if (options_.vitals) options_.vitals->slowness = times;
}

mesh::LaneNotes Control::wishes() const {
  const auto wish = [](bool wanted) { return wanted ? 1.0F : 0.0F; };
  const bool signalled = options_.stop_requested && options_.stop_requested->load();
  const run::Orders* orders = options_.orders;
  return {.stop = wish(signalled || (orders && orders->stop)),
          .pause = wish(orders && orders->pause),
          .hand_over = wish(orders && orders->hand_over)};
}

bool Control::has_lane_order_after(std::int64_t serial) const {
  return options_.orders && options_.orders->lanes.newest().serial > serial;
}

// A worker that learnt of the pause from another's lanes waits a moment for its own order: going on without
// it would leave it waiting in a step for those who pause.
void Control::wait_while_paused() const {
  using Clock = std::chrono::steady_clock;
  const run::Orders& orders = *options_.orders;
  const auto give_up = Clock::now() + std::chrono::seconds(2);
  while (!orders.pause && !orders.stop && Clock::now() < give_up)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  while (orders.pause && !orders.stop && !options_.stop_requested->load())
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

}  // namespace distbelief::train
