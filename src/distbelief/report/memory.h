#pragma once

#include <sys/resource.h>

#include <cstdint>

// What this process holds of the machine's memory, as the kernel counts it.
namespace distbelief::report {

// The most that was ever resident. Memory shared with other processes counts fully in each.
std::uint64_t peak_rss_bytes();

// Resident now, shared memory counted fully.
std::uint64_t rss_bytes();

// Resident now, shared pages divided among those that share them: what may be added up over workers.
// 0 where the kernel does not tell. Walks the page tables: not for every step.
std::uint64_t pss_bytes();

// Of the machine: what processes could still take, and not more than the limit of a container or job. 0 where
// the kernel does not tell.
std::uint64_t available_bytes();

// While it lives this process is refused memory beyond what was available when it was made, swap included, or
// of that an equal share for each of so many processes: allocations fail, as what is lazily mapped would not
// until the machine is full.
class MemoryBound {
 public:
  explicit MemoryBound(int processes = 1);
  ~MemoryBound();
  MemoryBound(const MemoryBound&) = delete;
  MemoryBound& operator=(const MemoryBound&) = delete;

 private:
  rlim_t before_;
};

}  // namespace distbelief::report
