#pragma once

#include <map>
#include <string>
#include <vector>

#include "distbelief/cluster/hosts.h"

// Places the processes of a run with parameter servers on hosts. Pure.
namespace distbelief::cluster {

// All workers of a replica are on one host.
struct ReplicaPlace {
  std::string host{};  // empty: this machine
  int workers = 1;
  friend bool operator==(const ReplicaPlace&, const ReplicaPlace&) = default;
};
enum class ReplicaRule { kOfEqualSize, kOnePerHost };
// Places replicas on `hosts` by their slots, with `workers` each under kOfEqualSize. Throws Error(kBadInput)
// for a host whose slots are no multiple of a replica.
std::vector<ReplicaPlace> place_replicas(const std::vector<HostSlots>& hosts, int workers, ReplicaRule rule);

// A host as seen when another server is to be placed.
struct ServerHost {
  std::string name{};
  int servers = 0;  // on this host
  int losses = 0;   // servers lost on this host
};
// The host for another server: the one with the fewest losses, then the fewest servers, then the first.
std::string host_for_server(const std::vector<ServerHost>& hosts);

}  // namespace distbelief::cluster
