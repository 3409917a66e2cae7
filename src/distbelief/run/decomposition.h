#pragma once

#include <cstdint>
#include <vector>

#include "distbelief/run/prepared_job.h"

// How a model is cut into sub-networks that are trained apart (parallel.mode = "decomposed").
namespace distbelief::run {

// Gives the blueprint a local head at the end of each sub-network but the last, and says which blocks each
// has, in PreparedJob::sub_networks. Makes the blocks one after another and forgets them. Throws
// Error(kBadInput), with what would do, for a model or a task that cannot be cut so.
void decompose(PreparedJob& job);

// Where a sub-network's parameters lie.
struct SubNetworkPlace {
  compute::Layout layout;           // of its own arena
  std::size_t offset = 0;           // of that in the arena of the whole model
  std::size_t statistics = 0;       // floats of running statistics
  std::size_t first_statistic = 0;  // of them, among those of the whole model
  std::uint64_t input_bytes =
      0;  // of a step's input that comes from the sub-network before; 0: from the data
};
std::vector<SubNetworkPlace> places_of_sub_networks(const PreparedJob& job);

}  // namespace distbelief::run
