#pragma once

#include <map>
#include <string>
#include <vector>

#include "distbelief/cluster/hosts.h"

// Where the processes of a run with parameter servers go. Pure.
namespace distbelief::cluster {

// A replica is on one host with all its workers.
struct ReplicaPlace {
  std::string host{};  // empty: this machine
  int workers = 1;
  friend bool operator==(const ReplicaPlace&, const ReplicaPlace&) = default;
};
enum class ReplicaRule { kOfEqualSize, kOnePerHost };
// `hosts` with their slots, `workers` of each replica where all are of equal size. Throws Error(kBadInput)
// for a host whose slots are no whole number of replicas.
std::vector<ReplicaPlace> place_replicas(const std::vector<HostSlots>& hosts, int workers, ReplicaRule rule);

// What is known of a host by the one who is to start another server.
struct ServerHost {
  std::string name{};
  int servers = 0;  // that it has
  int losses = 0;   // servers that were lost there
};
// The host for another server: where fewest were lost, and of those where fewest are; the first of several.
std::string host_for_server(const std::vector<ServerHost>& hosts);

}  // namespace distbelief::cluster
