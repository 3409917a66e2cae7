#pragma once

#include <optional>
#include <set>
#include <string>

#include "distbelief/server/client/server_map.h"

// What happens to the map of servers next. Pure.
namespace distbelief::server {

struct MapStep {
  ServerMap map{};
  std::string reason{};
};

// The next of the steps after which every part has two copies, on two hosts where there are two, all servers
// are primaries of as many of the first parts, however many one looks at, and backups of about as many, and
// those who are to leave have nothing and are no longer in the map. First copies of what has only one; then,
// in turns, copies for those who are to have a part, and the part to who has a copy. Nothing: all is as it
// should be. Not while the map is_changing().
std::optional<MapStep> next_step(const ServerMap& map, const std::set<int>& leaving);

}  // namespace distbelief::server
