#include "distbelief/base/memory_limit.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace distbelief {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

// "max" does not parse as a number and means no limit.
std::uint64_t number_in(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t bytes = 0;
  return file >> bytes ? bytes : kNoLimit;
}

// The tightest limit of a group and its ancestors.
std::uint64_t limit_of(const fs::path& mount, const std::string& group, const char* name) {
  std::uint64_t limit = number_in(mount / name);
  fs::path folder = mount;
  for (const fs::path& part : fs::path(group).relative_path()) {
    folder /= part;
    limit = std::min(limit, number_in(folder / name));
  }
  return limit;
}

struct GroupLine {
  std::string controllers;  // empty for version 2, which has all controllers
  std::string group;
};

// "4:memory:/a/b", or "0::/a/b".
std::optional<GroupLine> parse_line(const std::string& line) {
  const std::size_t first = line.find(':');
  const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
  if (second == std::string::npos) return std::nullopt;
  return GroupLine{line.substr(first + 1, second - first - 1), line.substr(second + 1)};
}

std::uint64_t machine_bytes(const fs::path& root) {
  std::ifstream file(root / "proc/meminfo");
  std::string word;
  std::uint64_t kilobytes = 0;
  if (file >> word >> kilobytes && word == "MemTotal:") return kilobytes * 1024;
  return kNoLimit;
}

}  // namespace

std::uint64_t memory_limit(const fs::path& root) {
  std::uint64_t limit = machine_bytes(root);
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string text; std::getline(groups, text);) {
    const std::optional<GroupLine> line = parse_line(text);
    if (!line) continue;
    if (line->controllers.empty())
      limit = std::min(limit, limit_of(root / "sys/fs/cgroup", line->group, "memory.max"));
    else if (("," + line->controllers + ",").find(",memory,") != std::string::npos)
      limit = std::min(limit, limit_of(root / "sys/fs/cgroup/memory", line->group, "memory.limit_in_bytes"));
  }
  return limit == kNoLimit ? 0 : limit;
}

}  // namespace distbelief
