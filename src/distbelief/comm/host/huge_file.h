#pragma once

#include <cstddef>

namespace distbelief::comm {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

// A file of `bytes` without a name, in memory of huge pages, which processes of one host can map together
// (/proc/PID/fd/N); the caller closes it. Shared memory has pages of 4 KiB unless the administrator allows
// huge ones (shmem_enabled), and then sums over 256 MiB take half as long again. A file system of one's own
// does not ask: a child with a mount namespace of its own makes one, nothing is mounted anywhere that others
// see, and it goes with the last descriptor. -1 where the kernel or the container does not allow that: take
// ordinary pages.
int open_huge_file(std::size_t bytes);

}  // namespace distbelief::comm
