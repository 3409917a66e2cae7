#include "distbelief/cluster/fleet_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "distbelief/base/error.h"

namespace distbelief::cluster {

std::vector<ReplicaPlace> place_replicas(const std::vector<HostSlots>& hosts, int workers, ReplicaRule rule) {
  std::vector<ReplicaPlace> places;
  for (const HostSlots& host : hosts) {
    const int each = rule == ReplicaRule::kOnePerHost ? host.slots : workers;
    if (host.slots % each != 0)
      throw Error(
          ErrorCode::kBadInput,
          fmt::format("a replica of {} workers is on one host, but {} is to have {} workers; give it a "
                      "multiple of {}",
                      each, host.host, host.slots, each));
    places.insert(places.end(), std::size_t(host.slots / each), {.host = host.host, .workers = each});
  }
  return places;
}

std::string host_for_server(const std::vector<ServerHost>& hosts) {
  const auto rank = [](const ServerHost& host) { return std::tuple(host.losses, host.servers); };
  const auto best = std::ranges::min_element(hosts, {}, rank);
  return best == hosts.end() ? "" : best->name;
}

}  // namespace distbelief::cluster
