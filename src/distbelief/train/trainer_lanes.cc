#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include "distbelief/train/trainer.h"

// Which worker carries which lanes: the part of Trainer that finds stragglers and moves lanes between steps.
namespace distbelief::train {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

void Trainer::watch_balance() {
  if (world_.size() == 1) return;
  balancer_ = std::make_unique<Balancer>(
      world_, Balancer::Options{.least = group_->threads(), .moves_lanes = job_.config.elastic.rebalance});
}

void Trainer::show_straggler() {
  const std::optional<strategy::Rebalance>& straggler = balancer_->straggler();
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
  const std::optional<strategy::Rebalance> found = balancer_->after_step(busy_seconds_, lanes);
  show_straggler();
  if (!found) return;
  if (!has_room_to_rebuild()) {
    spdlog::warn("/dev/shm has no room to move lanes between workers; they stay where they are");
    balancer_->keep_lanes();
    return;
  }
  const auto begin = Clock::now();
  rebuild(found->lanes);
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
  for (std::size_t c = 0; c < group_->plan().carriers.size(); ++c) {
    const strategy::Carrier& carrier = group_->plan().carriers[c];
    lanes[c / std::size_t(group_->threads())] += carrier.end_lane - carrier.first_lane;
  }
  return lanes;
}

// The old segment and the new one are there together for a moment. Collective: all workers get the same
// answer.
bool Trainer::has_room_to_rebuild() {
  std::int64_t hosts_without =
      world_.local_rank() == 0 && comm::shared_memory_free() < group_->shared_bytes() ? 1 : 0;
  world_.communicator().allreduce(comm::view(&hosts_without, 1), comm::ReduceOp::kSum);
  return hosts_without == 0;
}

}  // namespace distbelief::train
