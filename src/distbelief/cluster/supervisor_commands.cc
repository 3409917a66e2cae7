#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "distbelief/cluster/lane_moves.h"
#include "distbelief/cluster/supervision.h"

// The supervisor's answers to `distbelief status`, `scale`, `pause` and `stop`.
namespace distbelief::cluster {
namespace {

LaneMoves lane_moves(const SupervisorOptions& options) {
  return {.lanes = options.lanes, .groups = options.groups, .whole_batch = options.whole_batch};
}

}  // namespace

// A generation reports only checkpoints that it has saved itself.
std::int64_t Supervisor::newest_checkpoint() const {
  return std::max(active_ ? active_->checkpoint_step() : -1,
                  options_.newest_checkpoint ? options_.newest_checkpoint() : -1);
}

nlohmann::json Supervisor::status() const {
  nlohmann::json workers = nlohmann::json::array();
  if (active_)
    for (const auto& [rank, report] : active_->reports()) workers.push_back(shown(rank, report));
  const comm::WorkerReport* first =
      active_ && active_->reports().contains(0) ? &active_->reports().at(0) : nullptr;
  return {{"run", options_.run_dir.string()},
          {"state", waiting_    ? "waiting for hosts"
                    : !active_  ? "starting workers"
                    : stopping_ ? "stopping"
                    : paused_   ? "paused"
                                : "training"},
          {"generation", generation_},
          {"recoveries", losses_.size()},
          {"workers_wanted", wanted()},
          {"threads", threads_},
          {"hosts_absent", board_.absent()},
          {"standby", next_ ? (next_->is_ready() ? "ready" : "starting") : "none"},
          {"step", active_ ? active_->step() : -1},
          {"epoch", first ? first->epoch : 0},
          {"loss", first ? first->loss : 0},
          {"samples_per_second", first ? first->samples_per_second : 0},
          {"snapshot_step", active_ ? active_->snapshot_step() : -1},
          {"checkpoint_step", newest_checkpoint()},
          {"workers", workers}};
}

// The command's value is the number of workers, its text the number of threads; 0: unchanged.
comm::CommandReply Supervisor::scale(const comm::Command& command) {
  const std::int64_t threads_named = std::atoll(command.text.c_str());
  if (threads_named > 0)
    if (const auto refused = refuse_threads(lane_moves(options_), threads_named)) return {false, *refused};
  const int before = wanted();
  const std::int64_t workers = command.value > 0 ? command.value : before;
  const std::int64_t threads = threads_named > 0 ? threads_named : threads_;
  const std::int64_t most =
      options_.lanes == 0 ? options_.max : std::min<std::int64_t>(options_.max, options_.lanes / threads);
  if (threads_named > 0 && workers * threads > options_.lanes)
    return {false, fmt::format("{} lanes cannot keep {} workers x {} threads busy; use fewer of them, or "
                               "start with a larger parallel.lanes",
                               options_.lanes, workers, threads)};
  if (workers < options_.min || workers > most)
    return {false,
            fmt::format("this run can have {} to {} workers (elastic.min; elastic.max, its lanes), not {}",
                        options_.min, most, workers)};
  if (const int usable = options_.usable ? options_.usable(int(workers)) : int(workers); usable != workers)
    return {false,
            fmt::format("{} workers cannot share this run's lanes in a mesh; {} can", workers, usable)};
  if (!board_.is_local() && workers > board_.slots())
    return {false,
            fmt::format("the hosts of this run have room for {} workers, not {}", board_.slots(), workers)};
  if (workers != before && !options_.snapshots)
    return {
        false,
        "a run without snapshots cannot be handed over: it was started with checkpoint.snapshots = false"};
  if (workers != before) {
    change_ = fmt::format("scaled to {}", workers);
    // These ranks will belong to other workers.
    if (!std::exchange(resting_, {}).empty() && active_) order_lanes(*active_);
  }
  if (command.value > 0) gauge_.reset();  // an explicit number ends the automatic choice
  if (threads != threads_) speeds_.clear();
  if (command.value > 0) asked_for_ = int(workers);
  threads_ = int(threads);
  // The next generation is started with the new number, or told when its turn comes.
  if (threads_named > 0 && active_ && active_->workers() == workers) order_lanes(*active_);
  event("scale", {{"workers", workers}, {"threads", threads}});
  return {true, fmt::format("going to {} worker{}{}", workers, workers == 1 ? "" : "s",
                            threads == 1 ? "" : fmt::format(" with {} threads each", threads))};
}

comm::CommandReply Supervisor::pause_worker(const comm::Command& command) {
  if (const auto refused = refuse_rest(lane_moves(options_))) return {false, *refused};
  const int workers = active_->workers();
  if (command.value < 0 || command.value >= workers)
    return {false, fmt::format("there is no worker {}: this run has 0 to {}", command.value, workers - 1)};
  if (active_->placement() != placement())
    return {false, "the number of workers is just being changed; try again in a moment"};
  std::set<int> resting = resting_;
  if (command.name == "pause")
    resting.insert(int(command.value));
  else
    resting.erase(int(command.value));
  if (int(resting.size()) == workers)
    return {false, fmt::format("worker {} is the last that works; distbelief pause without --worker lets the "
                               "whole run wait",
                               command.value)};
  resting_ = std::move(resting);
  order_lanes(*active_);
  event(command.name, {{"worker", command.value}});
  return {true, command.name == "pause" ? "its lanes go to the others" : "it gets lanes again"};
}

comm::CommandReply Supervisor::command(const comm::Command& command) {
  const std::lock_guard lock(mutex_);
  changed_.notify_one();
  if (command.name == "status") return {true, status().dump()};
  if (command.name == "scale") return scale(command);
  if (command.name == "stop" && !active_) {  // only the next generation would receive it
    stopping_ = true;
    event(command.name, nlohmann::json::object());
    return {true, "no worker trains just now: ending"};
  }
  if (!active_) return {false, "the workers are just being started; try again in a moment"};
  const bool pauses = command.name == "pause" || command.name == "continue";
  if (pauses && command.text == "worker") return pause_worker(command);
  if (command.name == "stop") {
    stopping_ = true;
    order_all(*active_, {.kind = "stop", .value = 0, .text = {}});
  } else if (pauses) {
    paused_ = command.name == "pause";
    if (!paused_ && !std::exchange(resting_, {}).empty()) order_lanes(*active_);
    order_all(*active_, {.kind = command.name, .value = 0, .text = {}});
  } else {
    return {false, fmt::format("this run does not know the command '{}'", command.name)};
  }
  event(command.name, nlohmann::json::object());
  return {true, command.name == "stop"    ? "ending: it saves first"
                : command.name == "pause" ? "pausing"
                                          : "going on"};
}

}  // namespace distbelief::cluster
