#include "distbelief/cluster/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "distbelief/base/error.h"
#include "distbelief/cluster/child.h"

namespace distbelief::cluster {
namespace {

constexpr const char* kMpiexec = DISTBELIEF_MPIEXEC;
constexpr bool kOpenMpi = DISTBELIEF_OPEN_MPI;

int number_in(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

std::vector<std::string> mpiexec_command(const LaunchOptions& options) {
  std::vector<std::string> command{kMpiexec, "-n", std::to_string(options.workers)};
  if (kOpenMpi)
    for (const char* flag : {"--oversubscribe", "--bind-to", "none", "--mca", "odls_base_sigkill_timeout",
                             "0", "--mca", "orte_abort_timeout", "2", "--quiet"})
      command.emplace_back(flag);
  // Inside a host we have our own shared memory; what a killed launcher leaves of Open MPI's would stay.
  if (kOpenMpi && !options.session_folder.empty())
    command.insert(command.end(), {"--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo", "--mca",
                                   "orte_tmpdir_base", options.session_folder.string()});
  if (!options.hosts.empty()) {
    std::string list;
    for (const HostSlots& host : options.hosts)
      list += fmt::format("{}{}:{}", list.empty() ? "" : ",", host.host, host.slots);
    command.insert(command.end(), {kOpenMpi ? "--host" : "-hosts", list});
  }
  return command;
}

void add_environment(std::vector<std::string>& command, Isa isa) {
  for (const Variable& variable : pinned_environment(isa)) {
    if (kOpenMpi)
      command.insert(command.end(), {"-x", variable.name + "=" + variable.value});
    else
      command.insert(command.end(), {"-genv", variable.name, variable.value});
  }
}

}  // namespace

LauncherPlace launcher_place() {
  struct Names {
    const char* rank;
    const char* size;
  };
  for (const Names& names : {Names{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                             Names{"PMI_RANK", "PMI_SIZE"}, Names{"PMIX_RANK", "SLURM_NTASKS"}})
    if (std::getenv(names.rank) != nullptr)
      return {true, number_in(names.rank, 0), std::max(1, number_in(names.size, 1))};
  return {};
}

bool is_pinned() {
  for (const Variable& variable : pinned_environment(pinned_isa())) {
    const char* value = std::getenv(variable.name.c_str());
    if (value == nullptr || value != variable.value) return false;
  }
  return true;
}

Isa pinned_isa() {
  const char* name = std::getenv("DISTBELIEF_ISA");
  return name == nullptr ? detect_isa() : std::min(parse_isa(name), detect_isa());
}

void restart_pinned(Isa isa, char** argv) {
  for (const Variable& variable : pinned_environment(isa))
    setenv(variable.name.c_str(), variable.value.c_str(), 1);
  execv("/proc/self/exe", argv);
}

std::vector<HostSlots> parse_hosts(const std::string& text) {
  std::vector<HostSlots> hosts;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t colon = part.find(':');
    HostSlots host{part.substr(0, colon), 1};
    if (colon != std::string::npos) {
      const char* end = part.data() + part.size();
      const auto [stop, error] = std::from_chars(part.data() + colon + 1, end, host.slots);
      if (error != std::errc{} || stop != end) host.slots = 0;
    }
    if (host.host.empty() || host.slots < 1)
      throw Error(ErrorCode::kBadInput,
                  fmt::format("--hosts: '{}' is not host:workers, as in a:2,b:2", part));
    hosts.push_back(std::move(host));
  }
  if (hosts.empty()) throw Error(ErrorCode::kBadInput, "--hosts is empty; write host:workers, as in a:2,b:2");
  return hosts;
}

std::vector<std::string> launch_command(const LaunchOptions& options) {
  std::vector<std::string> command = mpiexec_command(options);
  add_environment(command, options.isa);
  command.insert(command.end(), options.command.begin(), options.command.end());
  return command;
}

// Open MPI refuses root unless told twice; whoever started us as root has decided.
void prepare_launcher() {
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
}

int run_workers(const LaunchOptions& options, const std::atomic<bool>& interrupted) {
  prepare_launcher();
  Child child({.command = launch_command(options)});
  wait_for(child, interrupted);
  if (interrupted.load()) return 130;
  return child.exit_code();
}

Isa weakest_isa(const std::vector<HostSlots>& hosts, const std::filesystem::path& program,
                const std::atomic<bool>& interrupted) {
  Isa weakest = pinned_isa();
  if (hosts.empty()) return weakest;
  prepare_launcher();
  LaunchOptions options{
      .workers = int(hosts.size()), .hosts = hosts, .isa = weakest, .command = {}, .session_folder = {}};
  for (HostSlots& host : options.hosts) host.slots = 1;
  std::vector<std::string> command = mpiexec_command(options);
  command.insert(command.end(), {program.string(), "isa"});
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(ErrorCode::kUnavailable, "cannot make a pipe");
  std::string answer;
  int code = 0;
  {
    Child child({.command = command, .output = ends[1]});
    close(ends[1]);
    wait_for(child, interrupted);
    code = child.exit_code();
  }
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof(buffer))) > 0;)
    answer.append(buffer, std::size_t(got));
  close(ends[0]);
  if (code != 0)
    throw Error(ErrorCode::kUnavailable,
                "not all hosts answered; can each be reached without a password (try: mpirun --host ... "
                "hostname), and is "
                "this program at the same path on all of them?");
  std::istringstream lines(answer);
  for (std::string line; std::getline(lines, line);) weakest = std::min(weakest, parse_isa(line));
  return weakest;
}

}  // namespace distbelief::cluster
