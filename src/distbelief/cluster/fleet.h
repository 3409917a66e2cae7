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
  int index = 0;                       // of the replica
  int launch = 0;                      // which of the run's launches this is: no two have the same
  std::string control{};               // where the supervisor listens
  std::string address{};               // of its host, for others; empty: there is one host only
  int workers = 1;                     // of the replica
  int replicas = 1;                    // in all
  std::vector<std::string> servers{};  // where these listen
};

// A run with parameter servers: processes that keep the parameters, and replicas that train, each a world of
// its own.
struct FleetOptions {
  LaunchOptions launch{};          // of a replica, without workers, hosts and command
  std::vector<HostSlots> hosts{};  // empty: this machine alone
  std::string address{};           // of this machine, for those; empty: found out
  std::filesystem::path certs{};   // for the wires between hosts; empty: the run makes its own
  std::chrono::milliseconds silence{5000};
  int servers = 1;  // spread over the hosts
  // Where servers of others listen now, where there are some: none is started then.
  std::function<std::vector<std::string>()> find_servers{};
  std::vector<ReplicaPlace> replicas{};  // none: the servers stand until they are told to stop
  std::int64_t least = 1, most = 0;      // replicas that a command may ask for; 0: any number
  RankGroups groups{};                   // of a replica's ranks
  bool stops_together = false;           // a replica that is given up ends the run (sync, decomposed) ...
  int spares = 0;                        // ... if it is one more than so many
  std::function<std::vector<std::string>(const FleetProcess&)> server_command{};
  std::function<std::vector<std::string>(const FleetProcess&)> replica_command{};
  std::filesystem::path run_dir{};
  RunPlace place{};
  RecoveryPolicy policy{};
  // Half of it, of silence, makes a process a lost one; before its first word, and for all servers to get
  // ready, all of it, and a minute at least.
  std::chrono::milliseconds deadline{120'000};
  bool resume = false;
  std::int64_t first_step = 0;                        // that a resumed run goes on with
  std::function<std::int64_t()> newest_checkpoint{};  // its step; -1: there is none. Empty: nobody trains
};

// Starts the servers, then the replicas; starts a replica that is lost again while the others go on; ends the
// servers when all work is done. What happened is said in one line each on standard error and recorded in
// events.jsonl. Gives the exit code, as supervise() does. All processes are gone when it returns.
int supervise_fleet(const FleetOptions& options, const std::atomic<bool>& interrupted);

}  // namespace distbelief::cluster
