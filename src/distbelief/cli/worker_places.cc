#include "distbelief/cli/worker_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/base/parallel_defaults.h"
#include "distbelief/cli/interruption.h"
#include "distbelief/cli/run_folder.h"
#include "distbelief/cli/standing_servers.h"
#include "distbelief/cli/supervised_run.h"
#include "distbelief/cluster/host_watch.h"
#include "distbelief/job/job_file.h"
#include "distbelief/run/prepared_job.h"

namespace distbelief::cli {

namespace fs = std::filesystem;

namespace {

// The current hosts; waits for the first.
std::vector<cluster::HostSlots> found_hosts(const Config& config) {
  const auto look = [&] {
    return cluster::find_hosts(config.elastic.hostfile, config.elastic.discovery, Watch().interrupted());
  };
  std::vector<cluster::HostSlots> hosts = look();
  if (hosts.empty()) fmt::print(stderr, "distbelief: no host is there yet; waiting for the first\n");
  while (hosts.empty() && !was_interrupted()) {
    std::this_thread::sleep_for(std::chrono::duration<double>(config.elastic.discovery_seconds));
    hosts = look();
  }
  return hosts;
}

// With parameter servers: sets the number of replicas, each with all its workers on one host.
void count_replicas(const PlaceFlags& flags, Config& config, const std::vector<cluster::HostSlots>& hosts) {
  const std::vector<cluster::ReplicaPlace> places = cluster::place_replicas(
      hosts, int(workers_per_replica(config.parallel)), replica_rule(config.parallel));
  if (flags.workers > 0 && std::size_t(flags.workers) != places.size())
    throw Error(ErrorCode::kBadInput,
                fmt::format("--workers counts replicas: {}, but --hosts {} has room for {}; give one of them",
                            flags.workers, flags.hosts, places.size()));
  config.parallel.workers = std::int64_t(places.size());
  if (replica_rule(config.parallel) != cluster::ReplicaRule::kOnePerHost) return;
  const std::int64_t cut = config.parallel.pipeline * config.parallel.tensor;
  for (const cluster::HostSlots& host : hosts)
    if (host.slots % cut != 0)
      throw Error(
          ErrorCode::kBadInput,
          fmt::format("a replica of parallel.pipeline {} x parallel.tensor {} is on one host, but {} is "
                      "to have {} workers; give it a multiple of {}",
                      config.parallel.pipeline, config.parallel.tensor, host.host, host.slots, cut));
  config.parallel.data = std::ranges::max(hosts, {}, &cluster::HostSlots::slots).slots / cut;
}

}  // namespace

// Only runs on several hosts use the folder, but a missing one is a mistake on one host too.
void require_certificates(const Config& config) {
  const fs::path certs = config.elastic.certs;
  if (certs.empty() || fs::is_directory(certs)) return;
  throw Error(ErrorCode::kBadInput, fmt::format("elastic.certs: there is no folder {0}; make it with: "
                                                "distbelief certs {0}",
                                                certs.string()));
}

StandingServers standing_servers(const PlaceFlags& flags, const Config& config) {
  if (flags.servers_at.empty()) return {};
  if (!has_servers(config.parallel))
    throw Error(ErrorCode::kBadInput,
                fmt::format("--servers-at is for parallel.sync = \"parameter_server\", found \"{}\"",
                            config.parallel.sync));
  StandingServers standing{.job = draw_job_name(run_name(config)),
                           .targets = targets_of_standing(flags.servers_at)};
  const std::int64_t servers = config.parallel.servers;
  if (servers != ParallelConfig().servers && servers != std::int64_t(standing.targets.size()))
    fmt::print(stderr, "distbelief: parallel.servers = {} is passed over: {} servers stand at {}\n", servers,
               standing.targets.size(), flags.servers_at);
  return standing;
}

std::vector<cluster::HostSlots> place_workers(const PlaceFlags& flags, Config& config) {
  if (flags.workers > 0) config.parallel.workers = flags.workers;
  if (!flags.hostfile.empty()) config.elastic.hostfile = fs::absolute(flags.hostfile).string();
  require_certificates(config);
  const bool finds = !config.elastic.hostfile.empty() || !config.elastic.discovery.empty();
  if (finds && !flags.hosts.empty())
    throw Error(ErrorCode::kBadInput,
                "--hosts and elastic.hostfile or elastic.discovery disagree; give one of them");
  if (flags.hosts.empty() && !finds) {
    if (!config.elastic.spares.empty())
      throw Error(ErrorCode::kBadInput,
                  "elastic.spares stand by for hosts; name those with --hosts or --hostfile");
    return {};
  }
  const std::vector<cluster::HostSlots> hosts =
      finds ? found_hosts(config) : cluster::parse_hosts(flags.hosts);
  if (has_servers(config.parallel) && !finds) {
    count_replicas(flags, config, hosts);
    return hosts;
  }
  const int slots = std::accumulate(hosts.begin(), hosts.end(), 0,
                                    [](int sum, const auto& host) { return sum + host.slots; });
  if (!finds && flags.workers > 0 && flags.workers != slots)
    throw Error(ErrorCode::kBadInput, fmt::format("--workers {} and --hosts {} disagree; give one of them",
                                                  flags.workers, flags.hosts));
  const std::int64_t most_busy = run::most_workers(config.parallel);
  config.parallel.workers = slots;
  for (const std::int64_t most : {config.elastic.max, finds ? most_busy : 0})
    if (most > 0) config.parallel.workers = std::min(config.parallel.workers, most);
  return hosts;
}

void PlaceFlags::add_to(CLI::App& command) {
  command.add_option("--workers", workers, "number of worker processes")->check(CLI::Range(1, 65536));
  command.add_option("--hosts", hosts, "hosts, with the number of workers on each: a:2,b:2");
  command.add_option("--hostfile", hostfile,
                     "file with a host per line (a:2); the run follows changes of the file");
  command.add_option(
      "--servers-at", servers_at,
      "use standing parameter servers: the folder of `distbelief servers`, or their addresses");
}

}  // namespace distbelief::cli
