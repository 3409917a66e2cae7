#pragma once

#include <string_view>

#include "distbelief/modes/mode.h"
#include "distbelief/modes/servers/server_share.h"

namespace distbelief::modes {

// Where a worker's mode is made.
struct ModeSite {
  World& world;
  const run::PreparedJob& job;
  ServerShareOptions servers{};  // without addresses: the run has none
};

struct ModeRow {
  std::string_view name;
  bool (*is_chosen)(const Config& config);
  ModeParts (*make)(const ModeSite& site);
};

// The mode of a resolved job: the first row that it has chosen.
const ModeRow& find_mode(const Config& config);

}  // namespace distbelief::modes
