#include "distbelief/cluster/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

#include "distbelief/base/error.h"

extern char** environ;

namespace distbelief::cluster {
namespace {

using Clock = std::chrono::steady_clock;
constexpr const char* kMpiexec = DISTBELIEF_MPIEXEC;
constexpr bool kOpenMpi = DISTBELIEF_OPEN_MPI;

int number_in(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

// A child in a process group of its own, so that Ctrl-C reaches it only through us.
class Child {
 public:
  Child(const std::vector<std::string>& command, int output) {
    std::vector<char*> arguments;
    for (const std::string& part : command) arguments.push_back(const_cast<char*>(part.c_str()));
    arguments.push_back(nullptr);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0)
      throw Error(ErrorCode::kUnavailable, fmt::format("cannot start a process: {}", std::strerror(errno)));
    if (pid_ == 0) {
      setpgid(0, 0);
      // When we die, however, the launcher ends the workers and removes its files and shared memory.
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != parent) _exit(127);
      if (output >= 0) dup2(output, STDOUT_FILENO);
      const int null = open("/dev/null", O_RDONLY);
      if (null >= 0) dup2(null, STDIN_FILENO);
      execvp(arguments[0], arguments.data());
      const std::string text =
          fmt::format("distbelief: cannot run {}: {}\n", command[0], std::strerror(errno));
      [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
      _exit(127);
    }
    setpgid(pid_, pid_);
  }

  ~Child() {
    if (!ended_) {
      signal_group(SIGKILL);
      waitpid(pid_, &status_, 0);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Sleeps until it has ended, a signal came or the time is up: a supervisor takes no core from a worker.
  bool wait_ended(std::chrono::milliseconds at_most) {
    if (ended_) return true;
    const int handle = int(syscall(SYS_pidfd_open, pid_, 0));
    pollfd ended{handle, POLLIN, 0};
    if (handle >= 0)
      poll(&ended, 1, int(at_most.count()));
    else
      std::this_thread::sleep_for(std::min(at_most, std::chrono::milliseconds(10)));  // a kernel before 5.3
    if (handle >= 0) close(handle);
    ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
    return ended_;
  }
  void signal_one(int number) const { kill(pid_, number); }
  void signal_group(int number) const { kill(-pid_, number); }
  int exit_code() const { return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_); }

 private:
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

// Waits for the child; once `interrupted`, asks, then ends, then kills.
void wait_for(Child& child, const std::atomic<bool>& interrupted) {
  Clock::time_point asked{};
  int stage = 0;
  while (!child.wait_ended(std::chrono::milliseconds(interrupted.load() ? 10 : 500))) {
    if (!interrupted.load()) continue;
    if (stage == 0) asked = Clock::now();
    const auto waited = Clock::now() - asked;
    if (stage == 0) {
      child.signal_one(SIGUSR1);
      stage = 1;
    } else if (stage == 1 && waited > std::chrono::milliseconds(1000)) {
      child.signal_one(SIGTERM);
      stage = 2;
    } else if (stage == 2 && waited > std::chrono::milliseconds(1500)) {
      child.signal_group(SIGKILL);
      stage = 3;
    }
  }
}

std::vector<std::string> mpiexec_command(const LaunchOptions& options) {
  std::vector<std::string> command{kMpiexec, "-n", std::to_string(options.workers)};
  if (kOpenMpi)
    for (const char* flag : {"--oversubscribe", "--bind-to", "none", "--mca", "odls_base_sigkill_timeout",
                             "0", "--mca", "orte_abort_timeout", "2", "--quiet"})
      command.emplace_back(flag);
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

int run_workers(const LaunchOptions& options, const std::atomic<bool>& interrupted) {
  // Open MPI refuses root unless told twice; whoever started us as root has decided.
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
  Child child(launch_command(options), -1);
  wait_for(child, interrupted);
  if (interrupted.load()) return 130;
  return child.exit_code();
}

Isa weakest_isa(const std::vector<HostSlots>& hosts, const std::filesystem::path& program,
                const std::atomic<bool>& interrupted) {
  Isa weakest = pinned_isa();
  if (hosts.empty()) return weakest;
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
  LaunchOptions options{.workers = int(hosts.size()), .hosts = hosts, .isa = weakest, .command = {}};
  for (HostSlots& host : options.hosts) host.slots = 1;
  std::vector<std::string> command = mpiexec_command(options);
  command.insert(command.end(), {program.string(), "isa"});
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(ErrorCode::kUnavailable, "cannot make a pipe");
  std::string answer;
  int code = 0;
  {
    Child child(command, ends[1]);
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
