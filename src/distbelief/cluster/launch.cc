#include "distbelief/cluster/launch.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/cluster/child.h"

namespace distbelief::cluster {
namespace {

constexpr const char* kMpiexec = DISTBELIEF_MPIEXEC;
constexpr bool kOpenMpi = DISTBELIEF_OPEN_MPI;
constexpr std::chrono::seconds kAnswerDeadline{
    30};  // for a host's first answer: it may have to load everything

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
  const bool keeps_files = kOpenMpi && !options.session_folder.empty();
  if (keeps_files)
    command.insert(command.end(), {"--mca", "orte_tmpdir_base", options.session_folder.string()});
  // Inside a host, DistBelief has its own shared memory; Open MPI's would remain after a killed launcher.
  const bool over_tcp = keeps_files && !options.mpi_memory;
  if (over_tcp) command.insert(command.end(), {"--mca", "btl", "self,tcp"});
  if (over_tcp && options.hosts.empty()) command.insert(command.end(), {"--mca", "btl_tcp_if_include", "lo"});
  // With keepalive, a launcher's daemon behind a cut link notices and ends its workers.
  if (kOpenMpi && !options.hosts.empty())
    for (const char* setting :
         {"oob_tcp_keepalive_time", "oob_tcp_keepalive_intvl", "oob_tcp_keepalive_probes"})
      command.insert(command.end(), {"--mca", setting, "2"});
  if (!options.hosts.empty())
    command.insert(command.end(), {kOpenMpi ? "--host" : "-hosts", to_string(options.hosts)});
  return command;
}

void add_environment(std::vector<std::string>& command, const LaunchOptions& options) {
  for (const std::string& name : options.exported)
    command.insert(command.end(), {kOpenMpi ? "-x" : "-genvlist", name});
  for (const Variable& variable : pinned_environment(options.isa)) {
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

std::vector<std::string> launch_command(const LaunchOptions& options) {
  std::vector<std::string> command = mpiexec_command(options);
  add_environment(command, options);
  command.insert(command.end(), options.command.begin(), options.command.end());
  return command;
}

// Open MPI refuses root unless told twice; starting this program as root was the user's decision.
void prepare_launcher() {
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
}

int run_workers(const LaunchOptions& options, const std::atomic<bool>& interrupted) {
  prepare_launcher();
  const ScratchFolder session;
  LaunchOptions launch = options;
  launch.session_folder = session.path();
  launch.mpi_memory = true;
  Child child({.command = launch_command(launch)});
  wait_for(child, interrupted);
  if (interrupted.load()) return 130;
  return child.exit_code();
}

std::string to_string(const HostAnswer& answer) {
  return fmt::format("{} {}", to_string(answer.isa), answer.shared_memory_free);
}

HostAnswer parse_host_answer(const std::string& line) {
  const std::size_t space = line.find(' ');
  HostAnswer answer{.isa = parse_isa(line.substr(0, space))};
  const char* const end = line.data() + line.size();
  const char* const digits = space == std::string::npos ? end : line.data() + space + 1;
  const auto [rest, error] = std::from_chars(digits, end, answer.shared_memory_free);
  if (error != std::errc() || rest != end)
    throw Error(ErrorCode::kBadInput,
                fmt::format("a host answers '{}', wanted its instruction set and the bytes free in /dev/shm; "
                            "is the same version of this program on all of them?",
                            line));
  return answer;
}

std::optional<HostAnswer> answer_of(const std::string& host, const std::filesystem::path& program,
                                    std::chrono::milliseconds deadline,
                                    const std::atomic<bool>& interrupted) {
  const ScratchFolder session;  // one per launcher: concurrent launchers create and remove a common one
  LaunchOptions options;
  options.hosts = {{host, 1}};
  options.session_folder = session.path();
  std::vector<std::string> command = mpiexec_command(options);
  command.insert(command.end(), {program.string(), "host"});
  const std::optional<std::string> answer = output_of(command, deadline, interrupted);
  if (!answer) return std::nullopt;
  return parse_host_answer(answer->substr(0, answer->find('\n')));
}

HostAnswers ask_hosts(const std::vector<HostSlots>& hosts, const std::vector<HostSlots>& may_be_absent,
                      const std::filesystem::path& program, const std::atomic<bool>& interrupted) {
  HostAnswers all{.weakest = pinned_isa(), .shared_memory_free = {}};
  all.shared_memory_free.resize(hosts.size() + may_be_absent.size());
  if (hosts.empty()) return all;
  prepare_launcher();
  std::mutex mutex;  // guards `silent` and `all`
  std::string silent;
  const auto ask = [&](const std::string& host, std::size_t place) {
    std::optional<HostAnswer> answer;
    std::string why;
    pthread_setname_np(pthread_self(), "db-ask");
    try {
      answer = answer_of(host, program, kAnswerDeadline, interrupted);
    } catch (const Error& error) {
      why = fmt::format(" ({})", error.what());
    }
    const std::lock_guard lock(mutex);
    if (answer) all.weakest = std::min(all.weakest, answer->isa);
    if (answer) all.shared_memory_free[place] = answer->shared_memory_free;
    if (!answer && place < hosts.size()) silent += (silent.empty() ? "" : ", ") + host + why;
  };
  {
    std::vector<std::jthread> askers;
    std::size_t place = 0;
    for (const auto* some : {&hosts, &may_be_absent})
      for (const HostSlots& host : *some) askers.emplace_back(ask, host.host, place++);
  }
  if (!silent.empty() && !interrupted.load())
    throw Error(ErrorCode::kUnavailable,
                fmt::format("no answer from {}; can each host be reached without a password (try: {} {} HOST "
                            "hostname), and is this program at the same path on all of them?",
                            silent, kMpiexec, kOpenMpi ? "--host" : "-hosts"));
  return all;
}

}  // namespace distbelief::cluster
