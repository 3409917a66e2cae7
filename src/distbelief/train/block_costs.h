#pragma once

#include <filesystem>
#include <vector>

#include "distbelief/strategy/cuts.h"
#include "distbelief/train/job.h"

namespace distbelief::train {

struct BlockMeasurement {
  std::int64_t samples = 1;  // of a lane
  std::filesystem::path
      kept_in{};  // read instead of measuring again, when it is of the same job; may be empty
};

// What each block of a network costs this process: time forward and backward of one lane, and memory. Makes
// the blocks one after another and forgets them, so it needs room for the largest. Takes a few steps' time.
std::vector<strategy::BlockCost> measure_blocks(const PreparedJob& job, const BlockMeasurement& measurement);
// The same of any blocks, with this input of one lane.
std::vector<strategy::BlockCost> measure_blocks(const model::Blueprint& blueprint, std::uint64_t seed,
                                                torch::Tensor input);

}  // namespace distbelief::train
