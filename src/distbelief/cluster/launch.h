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

// What a host says of itself, in one line: "avx2 8123456789".
struct HostAnswer {
  Isa isa = Isa::kBaseline;
  std::size_t shared_memory_free = 0;  // bytes in /dev/shm
  friend bool operator==(const HostAnswer&, const HostAnswer&) = default;
};
std::string to_string(const HostAnswer& answer);
HostAnswer parse_host_answer(const std::string& line);  // throws Error(kBadInput)

// Asks a host whether it can run `program`: its answer, or nothing. Throws Error(kBadInput) when it answers
// something else.
std::optional<HostAnswer> answer_of(const std::string& host, const std::filesystem::path& program,
                                    std::chrono::milliseconds deadline, const std::atomic<bool>& interrupted);

struct HostAnswers {
  Isa weakest = Isa::kBaseline;  // of the hosts, and of this process (pinned_isa)
  // Bytes in /dev/shm of `hosts`, in their order, then of `may_be_absent`; none: it did not answer.
  std::vector<std::optional<std::size_t>> shared_memory_free{};
};
// Asks each host. Throws Error(kUnavailable) naming those that do not answer, unless `may_be_absent`. When it
// was interrupted, what silent hosts have is unknown.
HostAnswers ask_hosts(const std::vector<HostSlots>& hosts, const std::vector<HostSlots>& may_be_absent,
                      const std::filesystem::path& program, const std::atomic<bool>& interrupted);

}  // namespace distbelief::cluster
