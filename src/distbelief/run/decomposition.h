#pragma once

#include <cstdint>
#include <vector>

#include "distbelief/run/prepared_job.h"

// Cuts a model into sub-networks that are trained separately (parallel.mode = "decomposed").
namespace distbelief::run {

// Adds a local head to the end of each sub-network but the last in the blueprint, and lists their blocks in
// PreparedJob::sub_networks. Builds the blocks one at a time and frees each. Throws Error(kBadInput), with
// values that work, for a model or a task that cannot be cut this way.
void decompose(PreparedJob& job);

// The position of a sub-network's parameters.
struct SubNetworkPlace {
  compute::Layout layout;           // of its own arena
  std::size_t offset = 0;           // of that layout in the arena of the whole model
  std::size_t statistics = 0;       // floats of running statistics
  std::size_t first_statistic = 0;  // their offset among those of the whole model
  // Bytes of a step's input from the preceding sub-network; 0: the input comes from the data.
  std::uint64_t input_bytes = 0;
};
std::vector<SubNetworkPlace> places_of_sub_networks(const PreparedJob& job);

}  // namespace distbelief::run
