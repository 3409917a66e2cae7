#pragma once

#include <cstddef>

namespace distbelief::comm {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Opens an unnamed file of `bytes` in huge pages of memory, which processes of one host can map together
// (/proc/PID/fd/N); the caller closes it. Shared memory has pages of 4 KiB unless the administrator allows
// huge ones (shmem_enabled), and sums over 256 MiB then take half as long again. A private file system needs
// no such setting: a child in its own mount namespace makes one, no other process sees a mount, and the file
// system goes with the last descriptor. Returns -1 where the kernel or the container forbids that; the caller
// then uses ordinary pages.
int open_huge_file(std::size_t bytes);

}  // namespace distbelief::comm
