#include "distbelief/cli/start_check.h"
#include "distbelief/cli/named_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "distbelief/base/error.h"
#include "distbelief/base/parallel_defaults.h"
#include "distbelief/cli/job_flags.h"
#include "distbelief/cli/supervised_run.h"
#include "distbelief/cluster/launch.h"
#include "distbelief/cluster/run_place.h"
#include "distbelief/comm/host/communicator.h"
#include "distbelief/comm/texts.h"
#include "distbelief/data/registry.h"
#include "distbelief/planner/memory_need.h"
#include "distbelief/process/worker.h"
#include "distbelief/report/memory.h"
#include "distbelief/run/checkpointer.h"
#include "distbelief/run/initial_weights.h"

namespace distbelief::cli {
namespace {

using Rooms = std::vector<comm::SharedMemoryNeed>;

// With parameter servers each replica is a world of its own.
Rooms rooms_of_replicas(const run::PreparedJob& job, const std::vector<cluster::HostSlots>& hosts) {
  const ParallelConfig& parallel = job.config.parallel;
  const auto workers = int(workers_per_replica(parallel));
  const std::size_t each = planner::shared_memory_needed(job, {workers});
  const auto room = [&](std::size_t replicas) {
    return comm::SharedMemoryNeed{
        .bytes = replicas * each,
        .purpose = fmt::format("{} with {} replicas", job.config.model.name, replicas),
        .less = replicas > 1 ? "use fewer replicas" : ""};
  };
  if (hosts.empty()) return {room(std::size_t(parallel.workers))};
  std::map<std::string, std::size_t> replicas;
  for (const cluster::ReplicaPlace& place : cluster::place_replicas(hosts, workers, replica_rule(parallel)))
    ++replicas[place.host];
  Rooms rooms;
  for (const cluster::HostSlots& host : hosts) rooms.push_back(room(replicas[host.host]));
  return rooms;
}

// The maximum over all hosts, because a spare may replace any of them.
std::size_t room_of_spare(const run::PreparedJob& job, const std::vector<int>& workers, int spare) {
  std::size_t most = 0;
  for (std::size_t host = 0; host < workers.size(); ++host) {
    std::vector<int> then = workers;
    then[host] = spare;
    most = std::max(most, planner::shared_memory_needed(job, then, int(host)));
  }
  return most;
}

comm::SharedMemoryNeed room(const run::PreparedJob& job, std::size_t bytes, int workers,
                            std::size_t snapshots) {
  std::vector<std::string> less;
  if (workers > 1) less.emplace_back("use fewer workers");
  if (snapshots > 0)
    less.push_back(
        fmt::format("do without snapshots, which take {:.1f} MB of it (checkpoint.snapshots = false)",
                    double(snapshots) / 1e6));
  return {
      .bytes = bytes,
      .purpose = fmt::format("{} with {} worker{}", job.config.model.name, workers, workers == 1 ? "" : "s"),
      .less = fmt::format("{}", fmt::join(less, ", or "))};
}

void show_init(const run::PreparedJob& job) {
  if (job.config.train.init.empty()) return;
  fmt::print("{}\n",
             run::describe_init(model::find_model(job.config.model.name), job.blueprint, job.config.train));
  std::fflush(stdout);  // must precede the workers' output
}

}  // namespace

Rooms rooms_of(const run::PreparedJob& job, const std::vector<cluster::HostSlots>& hosts) {
  if (has_servers(job.config.parallel)) return rooms_of_replicas(job, hosts);
  const std::vector<int> workers = cluster::workers_per_host(hosts, int(job.config.parallel.workers));
  const std::size_t snapshots = planner::snapshot_bytes(job);
  Rooms rooms;
  const auto add = [&](std::size_t bytes, int there) { rooms.push_back(room(job, bytes, there, snapshots)); };
  for (std::size_t host = 0; host < workers.size(); ++host)
    add(planner::shared_memory_needed(job, workers, int(host)), workers[host]);
  for (const cluster::HostSlots& spare : cluster::parse_hosts(job.config.elastic.spares))
    add(room_of_spare(job, workers, spare.slots), spare.slots);
  return rooms;
}

void advise(const Config& config, std::int64_t total_steps) {
  constexpr double kMuchMomentum = 0.5;
  if (const std::int64_t warmup = config.train.schedule.warmup_steps; warmup > 0 && warmup >= total_steps)
    fmt::print(stderr,
               "distbelief: train.warmup_steps is {} and the run has {} steps: it never reaches train.lr\n",
               warmup, total_steps);
  const OptimizerConfig& optimizer = config.train.optimizer;
  if (!takes_own_steps(config.parallel) || config.parallel.workers < 2 || optimizer.name != "sgd" ||
      optimizer.momentum <= kMuchMomentum)
    return;
  fmt::print(
      stderr,
      "distbelief: updates of {} replicas that go at their own pace act like momentum, and train.momentum is "
      "{} besides: the loss may well grow without bound; train.optimizer = \"adagrad\" or momentum = 0 learn "
      "(docs/explanation/parameter_servers.md)\n",
      config.parallel.workers, optimizer.momentum);
}

StartNeeds check_before_start(const job::Job& job, const std::vector<cluster::HostSlots>& hosts,
                              const data::KnownSet* known) {
  cluster::require_short_place();
  const report::MemoryBound bound;
  const run::PreparedJob prepared = prepare_placed(job, known);
  if (known != nullptr) data::require_same_split(*known, prepared.data);
  StartNeeds needs{.total_steps = prepared.total_steps(),
                   .steps_per_epoch = prepared.steps_per_epoch(),
                   .saved_bytes = planner::saved_bytes(prepared),
                   .rooms = rooms_of(prepared, hosts),
                   .data = data::describe_data(job.config.data, prepared.data)};
  if (hosts.empty()) comm::require_shared_memory(needs.rooms[0]);
  planner::require_state_room(prepared);
  show_init(prepared);
  advise(job.config, needs.total_steps);
  return needs;
}

StartNeeds check_launched(const job::Job& job, World& world, const data::KnownSet* known) {
  process::require_workers(world, job.config);
  process::require_same_build(world, std::string(cluster::to_string(cluster::pinned_isa())));
  job::Job unsupervised = job;
  unsupervised.config.elastic.standby = false;
  unsupervised.config.checkpoint.snapshots = false;
  const report::MemoryBound bound(world.local_size());
  const run::PreparedJob prepared = prepare_placed(unsupervised, known);
  if (known != nullptr) data::require_same_split(*known, prepared.data);
  comm::require_shared_memory(
      room(prepared, planner::shared_memory_needed(prepared, world.workers_per_host(), world.host()),
           world.local_size(), 0));
  planner::require_state_room(prepared);
  StartNeeds needs{.total_steps = prepared.total_steps(),
                   .steps_per_epoch = prepared.steps_per_epoch(),
                   .saved_bytes = planner::saved_bytes(prepared)};
  if (world.rank() != 0) return needs;
  show_init(prepared);
  needs.data = data::describe_data(job.config.data, prepared.data);
  return needs;
}

int act_together(World& world, const std::function<void()>& act) {
  std::string complaint;
  std::int64_t code = 0;
  try {
    act();
  } catch (const Error& error) {
    complaint = error.what();
    code = exit_code(error.code());
  } catch (const std::exception& error) {
    complaint = error.what();
    code = 1;
  }
  const std::vector<std::string> all = comm::exchange_texts(world.communicator(), complaint);
  const auto first = std::ranges::find_if(all, [](const std::string& text) { return !text.empty(); });
  if (first == all.end()) return 0;
  const auto own = all.begin() + world.rank();
  if (code != 0 && std::find(all.begin(), own, complaint) == own)
    fmt::print(stderr, "distbelief: {}\n", complaint);
  world.communicator().broadcast(comm::view(&code, 1), int(first - all.begin()));
  return int(code);
}

}  // namespace distbelief::cli
