#include "distbelief/cluster/process.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace distbelief::cluster {
namespace {

constexpr int kDeepest = 32;  // generations between a worker and the first process

std::string read_all(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

pid_t parent_of(pid_t pid) {
  const std::string text = read_all(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = text.rfind(')');  // the name may contain any character
  if (name_end == std::string::npos || name_end + 4 >= text.size()) return 0;
  return pid_t(std::atoll(text.c_str() + name_end + 4));
}

std::vector<std::string> arguments_of(pid_t pid) {
  std::istringstream text(read_all(fmt::format("/proc/{}/cmdline", pid)));
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(text, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

bool descends(pid_t pid, pid_t ancestor) {
  for (int depth = 0; depth < kDeepest && pid > 1; ++depth) {
    if (pid == ancestor) return true;
    pid = parent_of(pid);
  }
  return false;
}

void kill_descendants(pid_t ancestor) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const auto pid = pid_t(std::atoll(entry.path().filename().c_str()));
    if (pid <= 0 || pid == ancestor || !descends(pid, ancestor)) continue;
    const int handle = int(syscall(SYS_pidfd_open, pid, 0));
    if (handle < 0) continue;
    // Checks again: until the handle existed, the pid may have been reused.
    if (descends(pid, ancestor)) syscall(SYS_pidfd_send_signal, handle, SIGKILL, nullptr, 0);
    close(handle);
  }
}

std::optional<pid_t> ancestor_given(const std::vector<std::string>& arguments) {
  pid_t pid = getppid();
  for (int depth = 0; depth < kDeepest && pid > 1; ++depth, pid = parent_of(pid)) {
    const std::vector<std::string> given = arguments_of(pid);
    // clang 14 cannot compile std::ranges::search here.
    if (std::search(given.begin(), given.end(), arguments.begin(), arguments.end()) != given.end())
      return pid;
  }
  return std::nullopt;
}

}  // namespace distbelief::cluster
