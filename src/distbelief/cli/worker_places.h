#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cluster/hosts.h"

// The places of a run's workers, from flags and job file together.
namespace distbelief::cli {

struct PlaceFlags {
  int workers = 0;  // 0: as in the job
  std::string hosts{};
  std::string hostfile{};
  std::string servers_at{};
  void add_to(CLI::App& command);  // keeps a reference to this object, which must outlive the command
};

// Throws Error(kBadInput) when the job names a folder of certificates that does not exist.
void require_certificates(const Config& config);

// Returns the hosts (empty for this machine alone), and sets the number of workers in `config`, from --hosts,
// --hostfile, --workers, or the job. If a hostfile or discovery has no host yet, waits for the first until
// the program is interrupted. Throws Error(kBadInput) when they disagree.
std::vector<cluster::HostSlots> place_workers(const PlaceFlags& flags, Config& config);

// Standing parameter servers; empty unless --servers-at is given.
struct StandingServers {
  std::string job{};  // the run's name there
  std::vector<std::string> targets{};
};
StandingServers standing_servers(const PlaceFlags& flags, const Config& config);

}  // namespace distbelief::cli
