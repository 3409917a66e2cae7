#include "distbelief/cluster/process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace distbelief::cluster {
namespace {

constexpr int kDeepest = 32;  // between a worker and what was started first

std::string read_all(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

pid_t parent_of(pid_t pid) {
  const std::string text = read_all(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = text.rfind(')');  // the name may hold anything
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

std::optional<pid_t> ancestor_given(const std::vector<std::string>& arguments) {
  pid_t pid = getppid();
  for (int depth = 0; depth < kDeepest && pid > 1; ++depth, pid = parent_of(pid)) {
    const std::vector<std::string> given = arguments_of(pid);
    if (!std::ranges::search(given, arguments).empty()) return pid;
  }
  return std::nullopt;
}

}  // namespace distbelief::cluster
