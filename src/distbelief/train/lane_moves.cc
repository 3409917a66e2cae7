#include "distbelief/train/lane_moves.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>

namespace distbelief::train {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<int> without_lanes(const std::vector<std::int64_t>& lanes) {
  std::vector<int> workers;
  for (std::size_t w = 0; w < lanes.size(); ++w)
    if (lanes[w] == 0) workers.push_back(int(w));
  return workers;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

LaneMoves::LaneMoves(replica::Replica& replica, Control& control, LaneMovesOptions options)
    : replica_(replica),
      control_(control),
      options_(std::move(options)) {
  watch();
}

void LaneMoves::watch() {
  if (replica_.world().size() == 1 || replica_.partition().is_cut() || !replica_.terms().moves_lanes())
    return;
  balancer_ = std::make_unique<mesh::Balancer>(
      replica_.world(),
      mesh::Balancer::Options{.least = replica_.group().threads(), .moves_lanes = options_.rebalances});
}

void LaneMoves::event(const std::string& kind, nlohmann::json details) const {
  if (options_.recorder) options_.recorder->event(kind, std::move(details));
}

void LaneMoves::show_straggler(const run::RunProgress& progress) {
  const std::optional<mesh::Rebalance>& straggler = balancer_->straggler();
  const int worker = straggler ? straggler->slowest : -1;
  control_.show_slowness(worker == replica_.world().rank() ? straggler->slowness : 1);
  if (options_.recorder) options_.recorder->note_straggler(worker, straggler ? straggler->slowness : 1);
  if (worker < 0 || worker == named_straggler_) return;
  named_straggler_ = worker;
  spdlog::warn("worker {} takes {:.1f} times as long for a lane as the others", worker, straggler->slowness);
  event("straggler", {{"worker", worker}, {"slowness", straggler->slowness}, {"step", progress.step}});
}

void LaneMoves::after_step(double busy_seconds, const run::RunProgress& progress) {
  if (!balancer_) return;
  const std::vector<std::int64_t> lanes = replica_.lanes_of_workers();
  const std::optional<mesh::Rebalance> found = balancer_->after_step(busy_seconds, lanes);
  show_straggler(progress);
  if (!found) return;
  const auto begin = Clock::now();
  if (!carry(found->lanes, replica_.group().threads(), progress)) {
    balancer_->keep_lanes();
    return;
  }
  const double seconds = seconds_since(begin);
  spdlog::info("lanes per worker now {} instead of {}, after {:.3f} s", fmt::join(found->lanes, ","),
               fmt::join(lanes, ","), seconds);
  event("rebalanced", {{"lanes", found->lanes},
                       {"before", lanes},
                       {"gain", found->gain},
                       {"seconds", seconds},
                       {"step", progress.step}});
}

bool LaneMoves::has_order() const {
  return replica_.world().rank() == replica_.speaker() && control_.has_lane_order_after(order_);
}

// The speaker's order on all workers.
run::LaneOrder LaneMoves::shared_order() {
  World& world = replica_.world();
  std::vector<std::int64_t> values(2 + std::size_t(world.size()));  // serial, threads, who rests
  if (world.rank() == replica_.speaker()) {
    const run::LaneOrder order = control_.lane_order();
    values[0] = order.serial;
    values[1] = order.threads;
    for (const int worker : order.resting)
      if (worker < world.size()) values[2 + std::size_t(worker)] = 1;
  }
  world.communicator().broadcast(comm::view(values.data(), values.size()), replica_.speaker());
  run::LaneOrder order{.serial = values[0], .threads = int(values[1]), .resting = {}};
  for (int worker = 0; worker < world.size(); ++worker)
    if (values[2 + std::size_t(worker)] != 0) order.resting.push_back(worker);
  return order;
}

void LaneMoves::follow_order(const run::RunProgress& progress) {
  const run::LaneOrder order = shared_order();
  order_ = order.serial;
  const std::int64_t lanes = replica_.job().config.parallel.lanes;
  const std::int64_t working = replica_.world().size() - std::int64_t(order.resting.size());
  if (replica_.partition().is_cut() || !replica_.terms().moves_lanes()) {
    spdlog::warn("an order for lanes is ignored: the lanes of this run cannot move");
    return;
  }
  if (order.threads == replica_.group().threads() &&
      order.resting == without_lanes(replica_.lanes_of_workers()))
    return;
  if (order.threads < 1 || working < 1 || order.threads * working > lanes) {
    spdlog::warn("an order for lanes is ignored: {} lanes cannot keep {} workers x {} threads busy", lanes,
                 working, order.threads);
    return;
  }
  const auto begin = Clock::now();
  if (!carry(mesh::deal_lanes(lanes, replica_.world().size(), order.resting), order.threads, progress))
    return;
  watch();
  control_.show_working();
  const double seconds = seconds_since(begin);
  const std::vector<std::int64_t> now = replica_.lanes_of_workers();
  spdlog::info("lanes per worker now {}, on {} threads, after {:.3f} s", fmt::join(now, ","), order.threads,
               seconds);
  event("lanes", {{"lanes", now}, {"threads", order.threads}, {"seconds", seconds}, {"step", progress.step}});
}

// False: there is no room to move lanes, and all is as before.
bool LaneMoves::carry(const std::vector<std::int64_t>& lanes, std::int64_t threads,
                      const run::RunProgress& progress) {
  if (replica_.carry(lanes, threads, {.epoch = progress.epoch, .step_in_epoch = progress.step_in_epoch})) {
    control_.show_lanes(replica_.own_lanes());
    return true;
  }
  const std::string& folder = options_.state_dir;
  const std::string reason = "no room in /dev/shm" + (folder.empty() ? "" : " or " + folder);
  spdlog::warn("{} to move lanes; they stay where they are", reason);
  event("lanes kept", {{"reason", reason}, {"step", progress.step}});
  return false;
}

}  // namespace distbelief::train
