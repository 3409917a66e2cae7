#pragma once

#include <map>
#include <memory>
#include <vector>

#include "distbelief/server/backup_link.h"
#include "distbelief/server/server_map.h"

namespace distbelief::server {

// What a map means for one server. Immutable.
struct Roles {
  int id = 0;  // of this server
  ServerMap map{};
  std::map<int, std::shared_ptr<BackupLink>> links{};  // by id, to those who are backups of parts of ours

  bool is_primary(const ServerMap::Part& part) const { return part.primary == id && !part.is_handed_over; }
  bool holds(const ServerMap::Part& part) const {
    return part.primary == id || part.backup == id || part.filling == id;
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
