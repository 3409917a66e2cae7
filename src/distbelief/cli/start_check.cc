#include "distbelief/cli/start_check.h"

#include <fmt/format.h>

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
#include "distbelief/train/checkpointer.h"
#include "distbelief/train/initial_weights.h"
#include "distbelief/train/memory_need.h"
#include "distbelief/train/worker.h"

namespace distbelief::cli {
namespace {

std::size_t most_replicas_of_a_host(const ParallelConfig& parallel,
                                    const std::vector<cluster::HostSlots>& hosts) {
  if (hosts.empty()) return std::size_t(parallel.workers);
  std::map<std::string, std::size_t> replicas;
  std::size_t most = 1;
  for (const cluster::ReplicaPlace& place :
       cluster::place_replicas(hosts, int(workers_per_replica(parallel)), replica_rule(parallel)))
    most = std::max(most, ++replicas[place.host]);
  return most;
}

void show_init(const train::PreparedJob& job) {
  if (job.config.train.init.empty()) return;
  fmt::print("{}\n",
             train::describe_init(model::find_model(job.config.model.name), job.blueprint, job.config.train));
  std::fflush(stdout);  // before what the workers print
}

}  // namespace

std::int64_t check_before_start(const Job& job, const std::vector<cluster::HostSlots>& hosts) {
  // With parameter servers each replica is a world of its own.
  const bool are_apart = has_servers(job.config.parallel);
  const int workers = int(job.config.parallel.workers);
  const std::vector<int> workers_per_host =
      are_apart ? std::vector<int>{int(workers_per_replica(job.config.parallel))}
                : cluster::workers_per_host(hosts, workers);
  const std::size_t worlds = are_apart ? most_replicas_of_a_host(job.config.parallel, hosts) : 1;
  check_named(job);
  cluster::require_short_place();
  const train::PreparedJob prepared = prepare_placed(job);
  // Each machine looks again when its workers start.
  comm::require_shared_memory(
      worlds * train::shared_memory_needed(prepared, workers_per_host),
      fmt::format("{} with {} workers", job.config.model.name, are_apart ? workers : workers_per_host[0]));
  train::require_state_room(prepared);
  show_init(prepared);
  return prepared.total_steps();
}

std::int64_t check_launched(const Job& job, World& world) {
  train::require_workers(world, job.config);
  train::require_same_build(world, std::string(cluster::to_string(cluster::pinned_isa())));
  Job unsupervised = job;
  unsupervised.config.elastic.standby = false;
  unsupervised.config.checkpoint.snapshots = false;
  const train::PreparedJob prepared = prepare_placed(unsupervised);
  comm::require_shared_memory(train::shared_memory_needed(prepared, world.workers_per_host(), world.host()),
                              fmt::format("{} with {} workers", job.config.model.name, world.local_size()));
  train::require_state_room(prepared);
  if (world.rank() == 0) show_init(prepared);
  return prepared.total_steps();
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
  const std::vector<std::string> all = train::exchange_texts(world.communicator(), complaint);
  const auto first = std::ranges::find_if(all, [](const std::string& text) { return !text.empty(); });
  if (first == all.end()) return 0;
  const auto own = all.begin() + world.rank();
  if (code != 0 && std::find(all.begin(), own, complaint) == own)
    fmt::print(stderr, "distbelief: {}\n", complaint);
  world.communicator().broadcast(comm::view(&code, 1), int(first - all.begin()));
  return int(code);
}

}  // namespace distbelief::cli
