#pragma once

#include <cstddef>
#include <vector>

// In which order hosts get their ranks, so that workers that talk much share a host. Pure. Any thread.
namespace distbelief {

// Neighbouring ranks form groups: `tensor` of them compute each block together, and `pipeline` such groups
// one replica of the network.
struct RankGroups {
  int tensor = 1;
  int pipeline = 1;
  friend bool operator==(const RankGroups&, const RankGroups&) = default;
};

// Indices of the hosts, the first first. The given order stays unless another one leaves more tensor groups,
// or as many of them and more replicas, on one host each. What comes out comes out again when it is asked
// for once more, so that a launcher and its workers may both ask.
std::vector<std::size_t> host_order(const std::vector<int>& workers, const RankGroups& groups);

}  // namespace distbelief
