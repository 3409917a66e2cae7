#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace distbelief::data {

struct Verified {
  std::uint64_t files = 0;
  std::uint64_t slices = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> damage;  // descriptions with file and offset; empty: intact
};

// Reads and checks every slice of a packed set on `threads` threads. One thread at a time calls `progress`
// with the slices done and the total. `ca_file` is that of HttpClient::Options. Throws the exceptions of
// reading the index.
Verified verify_packed(const std::string& place, int threads,
                       const std::function<void(std::uint64_t done, std::uint64_t all)>& progress,
                       const std::string& ca_file = {});

}  // namespace distbelief::data
