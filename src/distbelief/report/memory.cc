#include "distbelief/report/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "distbelief/base/memory_limit.h"

namespace distbelief::report {
namespace {

// The value of a line "Key:   123 kB", in bytes; 0 when there is none.
std::uint64_t kilobyte_field(const char* path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    std::uint64_t kilobytes = 0;
    if (word == key && file >> kilobytes) return kilobytes * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

}  // namespace

std::uint64_t peak_rss_bytes() {
  // getrusage also counts the process before exec, so it is only the fallback.
  if (const std::uint64_t bytes = kilobyte_field("/proc/self/status", "VmHWM:"); bytes > 0) return bytes;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

std::uint64_t rss_bytes() { return kilobyte_field("/proc/self/status", "VmRSS:"); }

std::uint64_t pss_bytes() { return kilobyte_field("/proc/self/smaps_rollup", "Pss:"); }

std::uint64_t available_bytes() {
  const std::uint64_t free = kilobyte_field("/proc/meminfo", "MemAvailable:"), allowed = memory_limit();
  return allowed == 0 ? free : std::min(free, allowed);
}

MemoryBound::MemoryBound(int processes) {
  rlimit limit{};
  getrlimit(RLIMIT_DATA, &limit);
  before_ = limit.rlim_cur;
  const std::uint64_t available = available_bytes();
  if (available == 0) return;
  const std::uint64_t share =
      (available + kilobyte_field("/proc/meminfo", "SwapFree:")) / std::uint64_t(processes);
  limit.rlim_cur = std::min<rlim_t>(before_, kilobyte_field("/proc/self/status", "VmData:") + share);
  setrlimit(RLIMIT_DATA, &limit);
}

MemoryBound::~MemoryBound() {
  rlimit limit{};
  getrlimit(RLIMIT_DATA, &limit);
  limit.rlim_cur = before_;
  setrlimit(RLIMIT_DATA, &limit);
}

}  // namespace distbelief::report
