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

// The rank that a launcher (mpirun, mpiexec, srun) gave this process through its environment.
struct LauncherPlace {
  bool launched = false;
  int rank = 0;
  int size = 1;
};
LauncherPlace launcher_place();

// The instruction set to use here: the weaker of DISTBELIEF_ISA and the machine's.
Isa pinned_isa();
// Whether this process has the whole environment of pinned_environment(pinned_isa()).
bool is_pinned();

// Restarts the program with that environment, replacing its variables; returns only on failure.
void restart_pinned(Isa isa, char** argv);

struct LaunchOptions {
  int workers = 1;
  std::vector<HostSlots> hosts;  // empty: this machine
  Isa isa = Isa::kBaseline;
  std::vector<std::string> command;        // program and arguments of a worker
  std::filesystem::path session_folder{};  // for the launcher's own files; empty: its default
  bool mpi_memory = false;  // lets MPI use its own shared memory inside a host; for measurements only
  std::vector<std::string> exported{};  // variables of the launcher's environment to pass to the workers
};

// The command line that starts the workers. Pure.
std::vector<std::string> launch_command(const LaunchOptions& options);

// Sets the environment variables that the launcher needs. Call it before starting one.
void prepare_launcher();

// Starts the workers and waits for them to end. The launcher's files are in a temporary folder, and MPI may
// use its own shared memory. Once a signal sets `interrupted`, the workers are asked to stop (SIGUSR1 through
// the launcher), get SIGTERM after a second and SIGKILL a quarter of a second later. Returns the workers'
// exit code, or 130 when interrupted. All workers are gone when it returns.
int run_workers(const LaunchOptions& options, const std::atomic<bool>& interrupted);

// A host's answer to a probe, one line: "avx2 8123456789".
struct HostAnswer {
  Isa isa = Isa::kBaseline;
  std::size_t shared_memory_free = 0;  // bytes in /dev/shm
  friend bool operator==(const HostAnswer&, const HostAnswer&) = default;
};
std::string to_string(const HostAnswer& answer);
HostAnswer parse_host_answer(const std::string& line);  // throws Error(kBadInput)

// Asks a host whether it can run `program`. Returns its answer, or nothing. Throws Error(kBadInput) for a
// malformed answer.
std::optional<HostAnswer> answer_of(const std::string& host, const std::filesystem::path& program,
                                    std::chrono::milliseconds deadline, const std::atomic<bool>& interrupted);

struct HostAnswers {
  Isa weakest = Isa::kBaseline;  // of the hosts and this process (pinned_isa)
  // Bytes in /dev/shm of `hosts`, then of `may_be_absent`; empty: no answer.
  std::vector<std::optional<std::size_t>> shared_memory_free{};
};
// Asks each host. Throws Error(kUnavailable) naming hosts that do not answer, except those in
// `may_be_absent`. After an interrupt, the values of silent hosts are unknown.
HostAnswers ask_hosts(const std::vector<HostSlots>& hosts, const std::vector<HostSlots>& may_be_absent,
                      const std::filesystem::path& program, const std::atomic<bool>& interrupted);

}  // namespace distbelief::cluster
