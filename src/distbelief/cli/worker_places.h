#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cluster/hosts.h"

// Where the workers of a run go: flags and job file together.
namespace distbelief::cli {

struct PlaceFlags {
  int workers = 0;  // 0: what the job says
  std::string hosts{};
  std::string hostfile{};
  std::string servers_at{};
  void add_to(CLI::App& command);  // borrows this, which outlives the command
};

// Throws Error(kBadInput) when the job names a folder of certificates that is not there.
void require_certificates(const Config& config);

// The hosts, none for this machine alone, and in `config` how many workers there are: of --hosts, --hostfile,
// --workers, or what the job says. Waits for the first host where a hostfile or discovery has none yet, until
// the program is interrupted. Throws Error(kBadInput) when they disagree.
std::vector<cluster::HostSlots> place_workers(const PlaceFlags& flags, Config& config);

// Parameter servers that are not the run's own; none unless --servers-at names some.
struct StandingServers {
  std::string job{};  // by which they know the run
  std::vector<std::string> targets{};
};
StandingServers standing_servers(const PlaceFlags& flags, const Config& config);

}  // namespace distbelief::cli
