#include "distbelief/modes/table.h"

#include <algorithm>

#include "distbelief/base/parallel_defaults.h"
#include "distbelief/modes/lock_step.h"
#include "distbelief/modes/servers/local_store.h"
#include "distbelief/modes/servers/paced_servers.h"
#include "distbelief/modes/servers/search.h"
#include "distbelief/modes/servers/served_store.h"
#include "distbelief/modes/servers/sub_networks.h"
#include "distbelief/modes/servers/sync_servers.h"

namespace distbelief::modes {
namespace {

bool has_mode(const Config& config, std::string_view mode) {
  return has_servers(config.parallel) && config.parallel.mode == mode;
}

// A search keeps its vectors on servers, or without any in the first worker.
ModeParts make_search(const ModeSite& site) {
  const bool has_servers = !site.servers.servers.empty();
  std::unique_ptr<BatchStore> store;
  if (has_servers)
    store = std::make_unique<ServedStore>(ServedStore::Options{.parallel = site.job.config.parallel,
                                                               .servers = site.servers.servers,
                                                               .job = site.servers.job,
                                                               .replica = site.servers.replica,
                                                               .incarnation = site.servers.incarnation,
                                                               .log = site.servers.log,
                                                               .goes_on = site.servers.goes_on,
                                                               .find_servers = site.servers.find_servers});
  else if (site.world.rank() == 0)
    store = std::make_unique<LocalStore>();
  return Search::parts({.store = std::move(store),
                        .leads = site.servers.replica == 0,
                        .is_in_order = !has_servers,
                        .first_step = site.servers.first_step,
                        .goes_on = site.servers.goes_on});
}

std::vector<ModeRow>& table_of_modes() {
  static std::vector<ModeRow> table = {
      {"search", [](const Config& config) { return config.train.optimizer.name == "lbfgs"; }, make_search},
      {"sync", [](const Config& config) { return has_mode(config, "sync"); },
       [](const ModeSite& site) { return SyncServers::parts(site.servers); }},
      {"decomposed", [](const Config& config) { return has_mode(config, "decomposed"); },
       [](const ModeSite& site) { return SubNetworks::parts(site.job, site.servers); }},
      {"paced", [](const Config& config) { return has_servers(config.parallel); },  // async, bounded, hybrid
       [](const ModeSite& site) { return PacedServers::parts(site.servers); }},
      {"lock-step", [](const Config&) { return true; }, [](const ModeSite&) { return LockStep::parts(); }},
  };
  return table;
}

}  // namespace

const ModeRow& find_mode(const Config& config) {
  return *std::ranges::find_if(table_of_modes(), [&](const ModeRow& row) { return row.is_chosen(config); });
}

void register_mode(const std::string& name, ModeParts (*make)(const ModeSite& site)) {
  table_of_modes().insert(
      table_of_modes().begin(),
      {name, [name](const Config& config) { return config.parallel.sync == name; }, make});
}

}  // namespace distbelief::modes
