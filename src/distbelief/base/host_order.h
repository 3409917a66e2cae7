#pragma once

#include <cstddef>
#include <vector>

// Orders hosts so that workers that exchange much data share a host. Pure. Any thread.
namespace distbelief {

// Groups of neighbouring ranks: `tensor` ranks compute each block together, and `pipeline` such groups hold
// one copy of the network.
struct RankGroups {
  int tensor = 1;
  int pipeline = 1;
  friend bool operator==(const RankGroups&, const RankGroups&) = default;
};

// Host indices in rank order. Keeps the given order unless another one splits fewer tensor groups across
// hosts, or as many tensor groups and fewer copies. Idempotent, so a launcher and its workers may both call
// it.
std::vector<std::size_t> host_order(const std::vector<int>& workers, const RankGroups& groups);

}  // namespace distbelief
