#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/interruption.h"
#include "distbelief/process/worker.h"

namespace distbelief::cli {

// The command line of a worker, as the supervisor starts it.
struct WorkerCommand {
  std::filesystem::path run_dir;
  bool resume = false;
  std::string snapshots;
  std::vector<std::string> inject;
  std::string control;  // where the supervisor listens; empty: nowhere
  int cohort = 1;
  // With parameter servers: which replica it is, of how many, and where the servers listen.
  int replica = 0;
  int replicas = 1;
  std::vector<std::string> servers{};
  std::string served_job{};               // by which they know the run; empty: they are its own
  std::int64_t first_step = 0;            // that a resumed run goes on with there
  std::string standing{};                 // of a set that serves others too: its folder, or addresses
  std::vector<std::string> servers_at{};  // where these listened at first
};
std::vector<std::string> worker_command(const Config& config, const WorkerCommand& command);

// Of a parameter server of a set of its own, for a client: with the user's certificates between hosts.
comm::ControlAddress server_address(const Config& config, const std::string& target);

// What a process under mpirun or srun works with.
process::WorkerOptions launched_options(const Config& config, const std::filesystem::path& run_dir,
                                        bool resume, const Watch& watch);

}  // namespace distbelief::cli
