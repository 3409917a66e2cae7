#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "distbelief/server/client/backup_link.h"
#include "distbelief/server/client/server_map.h"

namespace distbelief::server {

// As servers call themselves to each other.
inline std::string name_of_server(int id) { return "server " + std::to_string(id); }

// What a map means for one server. Immutable.
struct Roles {
  int id = 0;  // of this server
  ServerMap map{};
  std::map<int, std::shared_ptr<BackupLink>> links{};  // by id, to those who are backups of parts of ours

  bool is_primary(const ServerMap::Part& part) const { return part.primary == id && !part.is_handed_over; }
  bool holds(const ServerMap::Part& part) const {
    return part.primary == id || part.backup == id || part.filling == id;
  }
  // Whether what a server by this name sends of a part is to be taken in: it is the part's primary, or knows
  // a newer map than this server. What comes late from another one counts for nothing: who has the part now
  // has all of it that was answered.
  bool takes_from(const std::string& sender, std::int64_t epoch, const ServerMap::Part& part) const {
    return epoch > map.epoch || (holds(part) && sender == name_of_server(part.primary));
  }
  // Whether that server was the part's primary and is not any more: it may have been given up though it
  // lives. What it sends is kept by nobody, and it must not tell anyone that it is.
  bool is_outdated(const std::string& sender, std::int64_t epoch, const ServerMap::Part& part) const {
    return epoch <= map.epoch && sender != name_of_server(part.primary);
  }
  // Who has to have an update of a part of ours before it counts. `filled`: whom a slice was already sent to.
  std::vector<std::shared_ptr<BackupLink>> backups(const ServerMap::Part& part, int filled) const {
    std::vector<std::shared_ptr<BackupLink>> found;
    for (const int other : {part.backup, part.filling})
      if (other != kNobody && (other == part.backup || other == filled))
        if (const auto link = links.find(other); link != links.end()) found.push_back(link->second);
    return found;
  }
};

}  // namespace distbelief::server
