#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Which servers have which slices. Pure (map_plan.h says what is next). The supervisor makes it and hands it
// to the servers; replicas ask these for it.
namespace distbelief::server {

// The slices of every job are dealt to so many parts in turn, and parts to servers.
inline constexpr std::int64_t kParts = 64;
inline constexpr int kNobody = -1;

struct ServerMap {
  struct Server {
    int id = 0;            // no two processes of a run have the same
    std::string target{};  // where everyone finds it
    std::string near{};    // a Unix socket for those on its host; empty: the target is one, or there is none
    std::string host{};    // its name
    bool operator==(const Server&) const = default;
  };
  // Who has a part, by id. What the primary does the backup does after it; `filling` is to become the backup
  // and gets what there is.
  struct Part {
    int primary = kNobody;
    int backup = kNobody;
    int filling = kNobody;
    // The primary gives it to its backup: it takes no more requests, and tells when the backup has all it
    // did.
    bool is_handed_over = false;
    bool operator==(const Part&) const = default;
  };
  std::int64_t epoch = 0;  // a larger one is newer
  std::vector<Server> servers{};
  std::vector<Part> parts{};

  bool operator==(const ServerMap&) const = default;
  const Part& part_of(std::int64_t slice) const { return parts[std::size_t(slice % kParts)]; }
  // Where work is dealt out and lanes meet.
  const Part& desk() const { return parts[0]; }
  bool has(int id) const;
  // Where a process on `host` finds it.
  const std::string& target_of(int id, const std::string& host) const;
};

std::string to_text(const ServerMap::Server& server);
// Throws Error(kBadInput).
ServerMap::Server server_from_text(const std::string& text);

// Parts are dealt evenly; each has a backup when there are two servers or more, on another host if there is
// one.
ServerMap first_map(const std::vector<ServerMap::Server>& servers);
// A server is gone: where it was primary the backup takes over.
ServerMap without_server(const ServerMap& map, int id);
// Whether every part still has a primary.
bool is_whole(const ServerMap& map);
// One has come; it has nothing yet.
ServerMap with_newcomer(const ServerMap& map, const ServerMap::Server& server);
// Whether primaries have something to do before the next map.
bool is_changing(const ServerMap& map);
bool is_changing(const ServerMap::Part& part);
// They have done it: what was being filled is the backup, and a part that was handed over has its backup as
// primary.
ServerMap with_settled(const ServerMap& map);

std::string to_text(const ServerMap& map);
// Throws Error(kBadInput).
ServerMap map_from_text(const std::string& text);

}  // namespace distbelief::server
