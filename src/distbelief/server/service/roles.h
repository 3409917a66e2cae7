#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "distbelief/server/client/backup_link.h"
#include "distbelief/server/client/server_map.h"

namespace distbelief::server {

// The name by which servers know each other.
inline std::string name_of_server(int id) { return "server " + std::to_string(id); }

// One server's roles in a map. Immutable.
struct Roles {
  int id = 0;  // of this server
  ServerMap map{};
  std::map<int, std::shared_ptr<BackupLink>> links{};  // by id, to the backups of our parts

  bool is_primary(const ServerMap::Part& part) const { return part.primary == id && !part.is_handed_over; }
  bool holds(const ServerMap::Part& part) const {
    return part.primary == id || part.backup == id || part.filling == id;
  }
  // Whether to accept an update of a part from the server of this name: it is the part's primary, or knows a
  // newer map than this server. A late update of a former primary is ignored: the present holder has
  // everything that was answered.
  bool takes_from(const std::string& sender, std::int64_t epoch, const ServerMap::Part& part) const {
    return epoch > map.epoch || (holds(part) && sender == name_of_server(part.primary));
  }
  // Whether that server was the part's primary and no longer is: it may have been given up though it lives.
  // Its updates are kept nowhere, so it must not acknowledge them.
  bool is_outdated(const std::string& sender, std::int64_t epoch, const ServerMap::Part& part) const {
    return epoch <= map.epoch && sender != name_of_server(part.primary);
  }
  // The backups that must have an update of a part of ours before it counts. `filled`: the server that was
  // already sent the slice.
  std::vector<std::shared_ptr<BackupLink>> backups(const ServerMap::Part& part, int filled) const {
    std::vector<std::shared_ptr<BackupLink>> found;
    for (const int other : {part.backup, part.filling})
      if (other != kNobody && (other == part.backup || other == filled))
        if (const auto link = links.find(other); link != links.end()) found.push_back(link->second);
    return found;
  }
};

}  // namespace distbelief::server
