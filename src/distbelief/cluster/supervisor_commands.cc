#include <fmt/format.h>

#include "distbelief/cluster/supervision.h"

// What `distbelief status`, `scale`, `pause` and `stop` ask of a supervisor.
namespace distbelief::cluster {

nlohmann::json Supervisor::status() const {
  nlohmann::json workers = nlohmann::json::array();
  if (active_)
    for (const auto& [rank, report] : active_->reports())
      workers.push_back({{"rank", rank},
                         {"pid", report.pid},
                         {"host", report.host},
                         {"state", report.state},
                         {"phase", report.phase},
                         {"step", report.step},
                         {"lanes", report.lanes},
                         {"step_seconds", report.step_seconds},
                         {"busy_seconds", report.busy_seconds},
                         {"straggler", report.slowness > 1},
                         {"slowness", report.slowness}});
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
          {"hosts_absent", board_.absent()},
          {"standby", next_ ? (next_->is_ready() ? "ready" : "starting") : "none"},
          {"step", active_ ? active_->step() : -1},
          {"epoch", first ? first->epoch : 0},
          {"loss", first ? first->loss : 0},
          {"samples_per_second", first ? first->samples_per_second : 0},
          {"snapshot_step", active_ ? active_->snapshot_step() : -1},
          {"checkpoint_step", active_ ? active_->checkpoint_step() : -1},
          {"workers", workers}};
}

comm::CommandReply Supervisor::scale(std::int64_t workers) {
  if (workers < options_.min || workers > options_.max)
    return {false,
            fmt::format("this run can have {} to {} workers (elastic.min; elastic.max, its lanes), not {}",
                        options_.min, options_.max, workers)};
  if (!options_.snapshots)
    return {
        false,
        "a run without snapshots cannot be handed over: it was started with checkpoint.snapshots = false"};
  if (!board_.is_local() && workers > board_.slots())
    return {false,
            fmt::format("the hosts of this run have room for {} workers, not {}", board_.slots(), workers)};
  asked_for_ = int(workers);
  change_ = fmt::format("scaled to {}", workers);
  event("scale", {{"workers", workers}});
  return {true, fmt::format("going to {} worker{}", workers, workers == 1 ? "" : "s")};
}

comm::CommandReply Supervisor::command(const comm::Command& command) {
  const std::lock_guard lock(mutex_);
  changed_.notify_one();
  if (command.name == "status") return {true, status().dump()};
  if (command.name == "scale") return scale(command.value);
  if (!active_) return {false, "the workers are just being started; try again in a moment"};
  if (command.name == "stop") {
    stopping_ = true;
    order_all(*active_, {.kind = "stop", .value = 0, .text = {}});
  } else if (command.name == "pause" || command.name == "continue") {
    paused_ = command.name == "pause";
    order_all(*active_, {.kind = command.name, .value = 0, .text = {}});
  } else {
    return {false, fmt::format("this run does not know the command '{}'", command.name)};
  }
  event(command.name, nlohmann::json::object());
  return {true, "done"};
}

}  // namespace distbelief::cluster
