#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "distbelief/base/host_order.h"
#include "distbelief/cluster/fleet_places.h"
#include "distbelief/cluster/launch.h"
#include "distbelief/cluster/recovery.h"
#include "distbelief/cluster/run_place.h"

namespace distbelief::cluster {

// A process that a fleet starts.
struct FleetProcess {
  int index = 0;                       // index of the replica
  int launch = 0;                      // number of the launch, unique in the run
  std::string control{};               // the supervisor's address
  std::string address{};               // its host's address as seen by others; empty: there is only one host
  int workers = 1;                     // in the replica
  int replicas = 1;                    // in total
  std::vector<std::string> servers{};  // addresses of the servers
};

// A run with parameter servers: processes that keep the parameters, and replicas that train, each a world of
// its own.
struct FleetOptions {
  LaunchOptions launch{};          // of a replica, without workers, hosts and command
  std::vector<HostSlots> hosts{};  // empty: this machine alone
  std::string address{};           // of this machine, as seen by those hosts; empty: detected
  std::filesystem::path certs{};   // for connections between hosts; empty: the run creates its own
  std::chrono::milliseconds silence{5000};
  int servers = 1;  // spread over the hosts
  // Current addresses of standing servers, if used; no servers are started then.
  std::function<std::vector<std::string>()> find_servers{};
  std::vector<ReplicaPlace> replicas{};  // empty: the servers run until they are told to stop
  std::int64_t least = 1, most = 0;      // range of replicas that a command may ask for; 0: no limit
  RankGroups groups{};                   // of a replica's ranks
  bool stops_together = false;           // a replica that is given up ends the run (sync, decomposed) ...
  int spares = 0;                        // ... if more than this many are given up
  std::function<std::vector<std::string>(const FleetProcess&)> server_command{};
  std::function<std::vector<std::string>(const FleetProcess&)> replica_command{};
  std::filesystem::path run_dir{};
  RunPlace place{};
  RecoveryPolicy policy{};
  // A process that is silent for half of it counts as lost. A process has all of it, and at least a minute,
  // until its first report; so do all servers together to get ready.
  std::chrono::milliseconds deadline{120'000};
  bool resume = false;
  std::int64_t first_step = 0;                        // the step where a resumed run continues
  std::function<std::int64_t()> newest_checkpoint{};  // its step, -1: none; empty: no replica trains
};

// Starts the servers, then the replicas. Restarts a lost replica while the others continue, and ends the
// servers when all work is done. Reports each event in one line on standard error and records it in
// events.jsonl. Returns the exit code, as supervise() does. All processes are gone when it returns.
int supervise_fleet(const FleetOptions& options, const std::atomic<bool>& interrupted);

}  // namespace distbelief::cluster
