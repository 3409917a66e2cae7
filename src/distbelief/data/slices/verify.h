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
  std::vector<std::string> damage;  // what is wrong, with file and offset; empty: nothing
};

// Reads and checks every slice of a packed set, on `threads` threads. `progress` hears the slices done and in
// all, from one thread at a time. `ca_file`: HttpClient::Options has it. Throws what reading the index
// throws.
Verified verify_packed(const std::string& place, int threads,
                       const std::function<void(std::uint64_t done, std::uint64_t all)>& progress,
                       const std::string& ca_file = {});

}  // namespace distbelief::data
