#include "distbelief/cluster/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "distbelief/base/error.h"

namespace distbelief::cluster {

using std::chrono::milliseconds;

namespace {

// Resets signals in a process that is about to execute another program, because its parent may catch signals
// or leave them to one of its threads. Ignored signals (nohup) stay ignored.
void take_signals_as_usual() {
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
    struct sigaction now {};
    if (sigaction(number, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) signal(number, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace

Child::Child(const Options& options) {
  std::vector<char*> arguments;
  for (const std::string& part : options.command) arguments.push_back(const_cast<char*>(part.c_str()));
  arguments.push_back(nullptr);
  std::vector<std::string> added = options.environment;
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) environment.push_back(*variable);
  for (std::string& variable : added) environment.push_back(variable.data());
  environment.push_back(nullptr);
  const std::string failure = fmt::format("distbelief: cannot run {}\n", options.command[0]);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0)
    throw Error(ErrorCode::kUnavailable, fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (pid_ == 0) {  // only calls that are safe after a fork of a process with threads
    take_signals_as_usual();
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, options.death_signal);
    if (getppid() != parent) _exit(127);
    if (options.output >= 0) dup2(options.output, STDOUT_FILENO);
    const int null = open("/dev/null", O_RDONLY);
    if (null >= 0) dup2(null, STDIN_FILENO);
    const int nowhere = options.quiet ? open("/dev/null", O_WRONLY) : -1;
    if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
    environ = environment.data();
    execvp(arguments[0], arguments.data());
    [[maybe_unused]] const auto written = write(STDERR_FILENO, failure.data(), failure.size());
    _exit(127);
  }
  setpgid(pid_, pid_);
}

Child::~Child() {
  if (ended_) return;
  signal_group(SIGKILL);
  waitpid(pid_, &status_, 0);
}

bool Child::wait_ended(milliseconds at_most) {
  if (ended_) return true;
  const int handle = at_most.count() > 0 ? int(syscall(SYS_pidfd_open, pid_, 0)) : -1;
  pollfd ended{handle, POLLIN, 0};
  if (handle >= 0)
    poll(&ended, 1, int(at_most.count()));
  else if (at_most.count() > 0)
    std::this_thread::sleep_for(std::min(at_most, milliseconds(10)));  // for kernels before 5.3
  if (handle >= 0) close(handle);
  ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  return ended_;
}

void Child::signal_one(int number) {
  if (!ended_) signalled_ = kill(pid_, number) == 0 || signalled_;
}
void Child::signal_group(int number) {
  if (!ended_) signalled_ = kill(-pid_, number) == 0 || signalled_;
}

int Child::foreign_signal() const {
  return ended_ && !signalled_ && WIFSIGNALED(status_) ? WTERMSIG(status_) : 0;
}

int Child::exit_code() const { return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_); }

void Farewell::press(Child& child) {
  const auto waited = std::chrono::steady_clock::now() - since_;
  if (stage_ == 0)
    child.signal_one(SIGUSR1);
  else if (stage_ == 1 && waited > milliseconds(1000))
    child.signal_one(SIGTERM);
  else if (stage_ == 2 && waited > milliseconds(1250))
    child.signal_group(SIGKILL);
  else
    return;
  ++stage_;
}

void end_together(std::span<Child* const> children) {
  std::vector<Farewell> farewells(children.size());
  for (bool all_gone = false; !all_gone;) {
    all_gone = true;
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (children[i]->wait_ended(milliseconds(5))) continue;
      all_gone = false;
      farewells[i].press(*children[i]);
    }
  }
}

std::optional<std::string> output_of(const std::vector<std::string>& command, milliseconds deadline,
                                     const std::atomic<bool>& interrupted) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(ErrorCode::kUnavailable, "cannot make a pipe");
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  const auto give_up = std::chrono::steady_clock::now() + deadline;
  std::string output;
  bool well = false;
  const std::unique_ptr<int, void (*)(int*)> reading(&ends[0], [](int* end) { close(*end); });
  {
    std::unique_ptr<int, void (*)(int*)> writing(&ends[1], [](int* end) { close(*end); });
    Child child({.command = command, .output = ends[1], .quiet = true});
    writing.reset();
    char buffer[4096];
    const auto drain = [&] {
      for (ssize_t got; (got = read(ends[0], buffer, sizeof(buffer))) > 0;)
        output.append(buffer, std::size_t(got));
    };
    bool ended = false;
    while (!ended && !interrupted.load() && std::chrono::steady_clock::now() < give_up) {
      ended = child.wait_ended(milliseconds(20));
      drain();
    }
    well = ended && child.exit_code() == 0;
  }
  return well ? std::optional(output) : std::nullopt;
}

void wait_for(Child& child, const std::atomic<bool>& interrupted) {
  while (!interrupted.load())
    if (child.wait_ended(milliseconds(50))) return;
  Farewell farewell;
  while (!child.wait_ended(milliseconds(10))) farewell.press(child);
}

}  // namespace distbelief::cluster
