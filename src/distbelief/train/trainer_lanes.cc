#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "distbelief/train/trainer.h"

// Which worker carries which lanes: the part of Trainer that finds stragglers and moves lanes between steps.
namespace distbelief::train {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<int> without_lanes(const std::vector<std::int64_t>& lanes) {
  std::vector<int> workers;
  for (std::size_t w = 0; w < lanes.size(); ++w)
    if (lanes[w] == 0) workers.push_back(int(w));
  return workers;
}

}  // namespace

void Trainer::watch_balance() {
  if (world_.size() == 1 || is_cut() || options_.link) return;
  balancer_ = std::make_unique<mesh::Balancer>(
      world_,
      mesh::Balancer::Options{.least = group().threads(), .moves_lanes = job_.config.elastic.rebalance});
}

void Trainer::show_straggler() {
  const std::optional<mesh::Rebalance>& straggler = balancer_->straggler();
  const int worker = straggler ? straggler->slowest : -1;
  if (options_.vitals) options_.vitals->slowness = worker == world_.rank() ? straggler->slowness : 1;
  if (is_root()) recorder_->note_straggler(worker, straggler ? straggler->slowness : 1);
  if (worker < 0 || worker == named_straggler_) return;
  named_straggler_ = worker;
  spdlog::warn("worker {} takes {:.1f} times as long for a lane as the others", worker, straggler->slowness);
  if (is_root())
    recorder_->event("straggler",
                     {{"worker", worker}, {"slowness", straggler->slowness}, {"step", progress_.step}});
}

// Moves lanes between workers when their speeds have shown that it pays.
void Trainer::balance() {
  const std::vector<std::int64_t> lanes = lanes_now();
  const std::optional<mesh::Rebalance> found = balancer_->after_step(busy_seconds_, lanes);
  show_straggler();
  if (!found) return;
  const auto begin = Clock::now();
  if (!carry(found->lanes, group().threads())) {
    balancer_->keep_lanes();
    return;
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  spdlog::info("lanes per worker now {} instead of {}, after {:.3f} s", fmt::join(found->lanes, ","),
               fmt::join(lanes, ","), seconds);
  if (is_root())
    recorder_->event("rebalanced", {{"lanes", found->lanes},
                                    {"before", lanes},
                                    {"gain", found->gain},
                                    {"seconds", seconds},
                                    {"step", progress_.step}});
}

std::vector<std::int64_t> Trainer::lanes_now() const {
  std::vector<std::int64_t> lanes(std::size_t(world_.size()));
  const auto threads = std::size_t(group().threads());
  for (int worker = 0; worker < world_.size(); ++worker) {
    const auto replica = std::size_t(mesh::place_of(mesh_plan_.mesh, worker).data);
    for (std::size_t t = 0; t < threads; ++t) {
      const mesh::Carrier& carrier = group().plan().carriers[replica * threads + t];
      lanes[std::size_t(worker)] += std::ssize(carrier.lanes);
    }
  }
  return lanes;
}

std::vector<int> Trainer::workers_with_lanes() const {
  const std::vector<std::int64_t> lanes = lanes_now();
  std::vector<int> workers;
  for (std::size_t w = 0; w < lanes.size(); ++w)
    if (lanes[w] > 0) workers.push_back(int(w));
  return workers;
}

const char* Trainer::working_state() const {
  return lanes_now()[std::size_t(world_.rank())] > 0 ? "training" : "paused";
}

// Only the speaker's wish counts, and its order is what all follow: they get their orders at different times.
bool Trainer::has_new_lane_order() const {
  if (options_.orders == nullptr || !speaks()) return false;
  return options_.orders->lanes.newest().serial > lane_order_;
}

// The speaker's order on all workers. Collective.
run::LaneOrder Trainer::shared_lane_order() {
  std::vector<std::int64_t> values(2 + std::size_t(world_.size()));  // serial, threads, who rests
  if (speaks()) {
    const run::LaneOrder order = options_.orders->lanes.newest();
    values[0] = order.serial;
    values[1] = order.threads;
    for (const int worker : order.resting)
      if (worker < world_.size()) values[2 + std::size_t(worker)] = 1;
  }
  world_.communicator().broadcast(comm::view(values.data(), values.size()), speaker_);
  run::LaneOrder order{.serial = values[0], .threads = int(values[1]), .resting = {}};
  for (int worker = 0; worker < world_.size(); ++worker)
    if (values[2 + std::size_t(worker)] != 0) order.resting.push_back(worker);
  return order;
}

void Trainer::follow_lane_order() {
  const run::LaneOrder order = shared_lane_order();
  lane_order_ = order.serial;
  const std::int64_t lanes = job_.config.parallel.lanes;
  const std::int64_t working = world_.size() - std::int64_t(order.resting.size());
  if (is_cut()) {
    spdlog::warn(
        "lanes of a network that is cut over workers stay where they are: an order that is not followed");
    return;
  }
  if (order.threads == group().threads() && order.resting == without_lanes(lanes_now())) return;
  if (order.threads < 1 || working < 1 || order.threads * working > lanes) {
    spdlog::warn("{} lanes cannot keep {} workers x {} threads busy: an order that is not followed", lanes,
                 working, order.threads);
    return;
  }
  const auto begin = Clock::now();
  if (!carry(mesh::deal_lanes(lanes, world_.size(), order.resting), order.threads)) return;
  watch_balance();
  show(working_state());
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  spdlog::info("lanes per worker now {}, on {} threads, after {:.3f} s", fmt::join(lanes_now(), ","),
               order.threads, seconds);
  if (is_root())
    recorder_->event(
        "lanes",
        {{"lanes", lanes_now()}, {"threads", order.threads}, {"seconds", seconds}, {"step", progress_.step}});
}

// The old segment and the new one are there together for a moment. Collective: all workers get the same
// answer.
bool Trainer::has_room_to_rebuild() {
  const std::size_t needed = mesh::AllreduceGroup::bytes_needed(
      outline_.parameters, group_settings(stages_[0]), world_.workers_per_host(), world_.host());
  std::int64_t hosts_without = 0;
  if (world_.local_rank() == 0) try {
      comm::require_shared_memory({.bytes = needed, .purpose = "moving lanes"});
      const mesh::AllreduceGroup::Options settings = group_settings(stages_[0]);
      if (!settings.state_dir.empty())
        comm::require_state_room(settings.state_dir,
                                 mesh::AllreduceGroup::state_bytes(outline_.parameters, settings));
    } catch (const Error& error) {
      spdlog::warn("no room to move lanes: {}", error.what());
      hosts_without = 1;
    }
  world_.communicator().allreduce(comm::view(&hosts_without, 1), comm::ReduceOp::kSum);
  return hosts_without == 0;
}

// Collective: so many lanes for each worker, so many at a time. False: there is no room, and all is as
// before.
bool Trainer::carry(std::vector<std::int64_t> lanes_of_workers, std::int64_t threads) {
  std::swap(lanes_of_workers, lanes_of_workers_);
  std::swap(threads, job_.config.parallel.threads);
  if (has_room_to_rebuild()) {
    rebuild();
    return true;
  }
  std::swap(lanes_of_workers, lanes_of_workers_);
  std::swap(threads, job_.config.parallel.threads);
  const std::string folder = job_.config.parallel.state_dir;
  const std::string reason = "no room in /dev/shm" + (folder.empty() ? "" : " or " + folder);
  spdlog::warn("{} to move lanes; they stay where they are", reason);
  if (is_root()) recorder_->event("lanes kept", {{"reason", reason}, {"step", progress_.step}});
  return false;
}

}  // namespace distbelief::train
