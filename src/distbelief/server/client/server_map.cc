#include "distbelief/server/client/server_map.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/base/json_text.h"

namespace distbelief::server {

bool ServerMap::has(int id) const {
  return std::ranges::any_of(servers, [&](const Server& server) { return server.id == id; });
}

const std::string& ServerMap::target_of(int id, const std::string& host) const {
  const Server& server = *std::ranges::find(servers, id, &Server::id);
  return !server.near.empty() && server.host == host ? server.near : server.target;
}

namespace {

nlohmann::json to_json(const ServerMap::Server& server) {
  return {{"id", server.id}, {"target", server.target}, {"near", server.near}, {"host", server.host}};
}

int server_number(const nlohmann::json& value) {
  return int(whole_number(value, kNobody, std::numeric_limits<int>::max()));
}

ServerMap::Server server_from_json(const nlohmann::json& value) {
  return {.id = server_number(value.at("id")),
          .target = value.at("target"),
          .near = value.at("near"),
          .host = value.at("host")};
}

// Returns the next server after the primary that is on another host, because a host may fail as a whole.
int first_backup(const std::vector<ServerMap::Server>& servers, std::size_t primary) {
  for (std::size_t after = 1; after < servers.size(); ++after) {
    const ServerMap::Server& next = servers[(primary + after) % servers.size()];
    if (next.host != servers[primary].host) return next.id;
  }
  return servers.size() > 1 ? servers[(primary + 1) % servers.size()].id : kNobody;
}

}  // namespace

std::string to_text(const ServerMap::Server& server) { return to_json(server).dump(); }

ServerMap::Server server_from_text(const std::string& text) {
  try {
    return server_from_json(parse_json(text, "the place of a server"));
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kBadInput, std::string("no place of a server: ") + error.what());
  }
}

ServerMap first_map(const std::vector<ServerMap::Server>& servers) {
  ServerMap map{.epoch = 1, .servers = servers, .parts = std::vector<ServerMap::Part>(kParts)};
  const auto count = std::int64_t(servers.size());
  for (std::int64_t p = 0; p < kParts; ++p)
    map.parts[std::size_t(p)] = {.primary = servers[std::size_t(p % count)].id,
                                 .backup = first_backup(servers, std::size_t(p % count))};
  return map;
}

ServerMap without_server(const ServerMap& map, int id) {
  ServerMap next = map;
  ++next.epoch;
  std::erase_if(next.servers, [&](const ServerMap::Server& server) { return server.id == id; });
  for (ServerMap::Part& part : next.parts) {
    // The remaining holder has everything that was answered.
    if (part.primary == id || part.backup == id) part.is_handed_over = false;
    if (part.filling == id) part.filling = kNobody;
    if (part.backup == id) part.backup = kNobody;
    if (part.primary != id) continue;
    part.primary = part.backup;
    part.backup = kNobody;
    // It may have updates of the lost primary that the new one lacks: its filling starts again.
    part.filling = kNobody;
  }
  return next;
}

bool is_whole(const ServerMap& map) {
  return std::ranges::all_of(map.parts, [](const ServerMap::Part& part) { return part.primary != kNobody; });
}

ServerMap with_newcomer(const ServerMap& map, const ServerMap::Server& server) {
  ServerMap next = map;
  ++next.epoch;
  next.servers.push_back(server);
  return next;
}

bool is_changing(const ServerMap::Part& part) { return part.filling != kNobody || part.is_handed_over; }

bool is_changing(const ServerMap& map) {
  return std::ranges::any_of(map.parts, [](const ServerMap::Part& part) { return is_changing(part); });
}

ServerMap with_settled(const ServerMap& map) {
  ServerMap next = map;
  ++next.epoch;
  for (ServerMap::Part& part : next.parts) {
    if (part.filling != kNobody) part.backup = std::exchange(part.filling, kNobody);
    if (std::exchange(part.is_handed_over, false)) std::swap(part.primary, part.backup);
  }
  return next;
}

std::string to_text(const ServerMap& map) {
  nlohmann::json value = {
      {"epoch", map.epoch}, {"servers", nlohmann::json::array()}, {"parts", nlohmann::json::array()}};
  for (const ServerMap::Server& server : map.servers) value["servers"].push_back(to_json(server));
  for (const ServerMap::Part& part : map.parts)
    value["parts"].push_back({part.primary, part.backup, part.filling, part.is_handed_over});
  return value.dump();
}

ServerMap map_from_text(const std::string& text) {
  try {
    const nlohmann::json value = parse_json(text, "the map of servers");
    ServerMap map{.epoch = whole_number(value.at("epoch"))};
    for (const nlohmann::json& server : value.at("servers")) map.servers.push_back(server_from_json(server));
    for (const nlohmann::json& part : value.at("parts"))
      map.parts.push_back({.primary = server_number(part.at(0)),
                           .backup = server_number(part.at(1)),
                           .filling = server_number(part.at(2)),
                           .is_handed_over = part.at(3)});
    if (std::int64_t(map.parts.size()) != kParts)
      throw Error(ErrorCode::kBadInput, "a map of servers has another number of parts");
    for (const ServerMap::Part& part : map.parts)
      for (const int id : {part.primary, part.backup, part.filling})
        if (id != kNobody && !map.has(id))
          throw Error(ErrorCode::kBadInput, "a map of servers names one that is not in it");
    return map;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kBadInput, std::string("no map of servers: ") + error.what());
  }
}

}  // namespace distbelief::server
