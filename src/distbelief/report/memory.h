#pragma once

#include <sys/resource.h>

#include <cstdint>

// Memory use of this process and the machine, as the kernel reports it.
namespace distbelief::report {

// Peak resident memory. Memory shared with other processes counts fully in each.
std::uint64_t peak_rss_bytes();

// Resident memory now; shared memory counts fully.
std::uint64_t rss_bytes();

// Resident memory now, with shared pages divided among the processes that share them, so it may be added up
// over workers. 0 where the kernel does not tell. Walks the page tables: too slow for every step.
std::uint64_t pss_bytes();

// Memory that processes of the machine could still take, at most the limit of a container or job. 0 where the
// kernel does not tell.
std::uint64_t available_bytes();

// RAII guard: limits this process to the memory available at construction, swap included, or to an equal
// share of it for each of `processes`. Allocations beyond it fail at once; without the limit, lazily mapped
// memory would fail only when the machine is full.
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
