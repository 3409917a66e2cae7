#pragma once

#include <cstddef>

// Fetching memory ahead of its use. Other cores' fresh data is slow to reach, and hardware prefetching ends
// at every page, so loops over pages that somebody else has written fetch the next one while they work on
// this.
namespace distbelief {

inline constexpr std::size_t kCacheLine = 64;

inline void prefetch(const void* place, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kCacheLine)
    __builtin_prefetch(static_cast<const char*>(place) + at, 0, 2);
}

inline void prefetch_for_write(const void* place, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kCacheLine)
    __builtin_prefetch(static_cast<const char*>(place) + at, 1, 2);
}

}  // namespace distbelief
