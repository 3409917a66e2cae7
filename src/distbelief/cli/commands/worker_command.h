#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/interruption.h"
#include "distbelief/process/worker.h"

namespace distbelief::cli {

// Options of the command line with which the supervisor starts a worker.
struct WorkerCommand {
  std::filesystem::path run_dir;
  bool resume = false;
  std::string snapshots;
  std::vector<std::string> inject;
  std::string control;  // the supervisor's address; empty: there is none
  int cohort = 1;
  // With parameter servers: the replica's index, the number of replicas, and the servers' addresses.
  int replica = 0;
  int replicas = 1;
  std::vector<std::string> servers{};
  std::string served_job{};     // the run's name on standing servers; empty: the servers belong to the run
  std::int64_t first_step = 0;  // step where a resumed run continues there
  std::string standing{};       // standing servers: their folder, or addresses
  std::vector<std::string> servers_at{};  // the first addresses of these servers
};
std::vector<std::string> worker_command(const Config& config, const WorkerCommand& command);

// A client's address of a standing parameter server; between hosts with the user's certificates.
comm::ControlAddress server_address(const Config& config, const std::string& target);

// The options of a process under mpirun or srun.
process::WorkerOptions launched_options(const Config& config, const std::filesystem::path& run_dir,
                                        bool resume, const Watch& watch);

}  // namespace distbelief::cli
