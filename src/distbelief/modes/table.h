#pragma once

#include <functional>
#include <string>

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
  std::string name;
  std::function<bool(const Config& config)> is_chosen;
  ModeParts (*make)(const ModeSite& site);
};

// The mode of a resolved job: the first row that it has chosen.
const ModeRow& find_mode(const Config& config);

// For main(), before anything is read: not thread-safe. parallel.sync = NAME chooses the mode.
void register_mode(const std::string& name, ModeParts (*make)(const ModeSite& site));

}  // namespace distbelief::modes
