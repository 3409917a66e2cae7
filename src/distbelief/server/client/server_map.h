#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The assignment of slices to servers. Pure (map_plan.h plans changes). The supervisor makes the map and
// hands it to the servers; replicas ask the servers for it.
namespace distbelief::server {

// The slices of every job are distributed over this many parts, and the parts over servers.
inline constexpr std::int64_t kParts = 64;
inline constexpr int kNobody = -1;

struct ServerMap {
  struct Server {
    int id = 0;            // unique among the processes of a run
    std::string target{};  // its address for every host
    std::string near{};    // a Unix socket for its own host; empty: none, or `target` is one
    std::string host{};    // of its host
    bool operator==(const Server&) const = default;
  };
  // The holders of a part, by id. The backup repeats what the primary does; `filling` is to become the backup
  // and is being sent the part's state.
  struct Part {
    int primary = kNobody;
    int backup = kNobody;
    int filling = kNobody;
    // The primary hands the part to its backup: it takes no more requests, and reports when the backup has
    // everything.
    bool is_handed_over = false;
    bool operator==(const Part&) const = default;
  };
  std::int64_t epoch = 0;  // a larger one is newer
  std::vector<Server> servers{};
  std::vector<Part> parts{};

  bool operator==(const ServerMap&) const = default;
  const Part& part_of(std::int64_t slice) const { return parts[std::size_t(slice % kParts)]; }
  // The part whose primary runs the ticket scheduler, where lanes meet too.
  const Part& desk() const { return parts[0]; }
  bool has(int id) const;
  // The address of a server for a process on `host`.
  const std::string& target_of(int id, const std::string& host) const;
};

std::string to_text(const ServerMap::Server& server);
// Throws Error(kBadInput).
ServerMap::Server server_from_text(const std::string& text);

// Distributes the parts evenly. Each has a backup when there are two servers or more, on another host if
// there is one.
ServerMap first_map(const std::vector<ServerMap::Server>& servers);
// A server is lost: the backup becomes primary of its parts.
ServerMap without_server(const ServerMap& map, int id);
// Whether every part still has a primary.
bool is_whole(const ServerMap& map);
// Adds a server, which holds no part yet.
ServerMap with_newcomer(const ServerMap& map, const ServerMap::Server& server);
// Whether primaries have work to do before the next map.
bool is_changing(const ServerMap& map);
bool is_changing(const ServerMap::Part& part);
// Their work is done: a filled server becomes the backup, and the backup of a part that was handed over
// becomes its primary.
ServerMap with_settled(const ServerMap& map);

std::string to_text(const ServerMap& map);
// Throws Error(kBadInput).
ServerMap map_from_text(const std::string& text);

}  // namespace distbelief::server
