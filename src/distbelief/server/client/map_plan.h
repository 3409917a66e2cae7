#pragma once

#include <optional>
#include <set>
#include <string>

#include "distbelief/server/client/server_map.h"

// Plans the next change of the server map. Pure.
namespace distbelief::server {

struct MapStep {
  ServerMap map{};
  std::string reason{};
};

// Returns the next step towards a balanced map: every part has two copies, on two hosts where there are two;
// among the first n parts, for any n, all servers are primaries of equally many (give or take one), and
// backups of about as many; leaving servers hold no part and are not in the map. First it copies parts that
// have only one copy; then, in turn, it makes copies for the servers that are to have a part, and moves the
// part to a server with a copy. Returns nothing when the map is balanced. Do not call it while the map
// is_changing().
std::optional<MapStep> next_step(const ServerMap& map, const std::set<int>& leaving);

}  // namespace distbelief::server
