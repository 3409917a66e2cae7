#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "distbelief/cluster/hosts.h"
#include "distbelief/cluster/isa.h"

namespace distbelief::cluster {

// What a launcher (mpirun, mpiexec, srun) told this process through its environment.
struct LauncherPlace {
  bool launched = false;
  int rank = 0;
  int size = 1;
};
LauncherPlace launcher_place();

// The instruction set to use here: what DISTBELIEF_ISA names, or the machine's, whichever is weaker.
Isa pinned_isa();
// Whether this process runs with the whole environment of pinned_environment(pinned_isa()).
bool is_pinned();

// Starts the program anew with that environment, whatever its variables were; returns only where that fails.
void restart_pinned(Isa isa, char** argv);

struct LaunchOptions {
  int workers = 1;
  std::vector<HostSlots> hosts;  // empty: this machine
  Isa isa = Isa::kBaseline;
  std::vector<std::string> command;        // program and arguments of a worker
  std::filesystem::path session_folder{};  // for the launcher's own files; empty: where it likes
  bool mpi_memory = false;              // inside a host MPI uses shared memory of its own: only to measure it
  std::vector<std::string> exported{};  // variables of the launcher's environment that the workers get too
};

// The command line that starts the workers; pure.
std::vector<std::string> launch_command(const LaunchOptions& options);

// Sets what the launcher wants of its environment. Call before starting one.
void prepare_launcher();

// Starts the workers and waits for them to end; the launcher's files are in a folder that goes with them, and
// MPI may use its own shared memory. `interrupted` set by a signal: they are asked to stop
// (SIGUSR1 through the launcher), ended after a second, killed after another half. Gives the exit code:
// theirs, or 130 when interrupted. All of them are gone when it returns.
int run_workers(const LaunchOptions& options, const std::atomic<bool>& interrupted);

// Asks a host whether it can run `program`: its instruction set, or nothing. Throws Error(kBadInput) when it
// answers something else.
std::optional<Isa> answer_of(const std::string& host, const std::filesystem::path& program,
                             std::chrono::milliseconds deadline, const std::atomic<bool>& interrupted);

// The weakest instruction set among this process's own (pinned_isa) and the hosts', asked of each. Throws
// Error(kUnavailable) naming the hosts that do not answer, unless `may_be_absent`.
Isa weakest_isa(const std::vector<HostSlots>& hosts, const std::vector<HostSlots>& may_be_absent,
                const std::filesystem::path& program, const std::atomic<bool>& interrupted);

}  // namespace distbelief::cluster
