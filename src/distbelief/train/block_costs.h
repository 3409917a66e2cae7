#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "distbelief/strategy/layout_costs.h"
#include "distbelief/train/job.h"
#include "distbelief/train/measured_costs.h"
#include "distbelief/train/task.h"

namespace distbelief::train {

struct BlockMeasurement {
  std::int64_t samples = 1;  // of a lane
  std::filesystem::path
      kept_in{};  // read instead of measuring again, when it is of the same job; may be empty
  // Where several workers measure at the same time: the largest of all workers' values. Collective. They
  // meet before each run of the blocks, so that they slow each other down as they will in training.
  std::function<double(double)> largest_of_all{};
};

// What each block of a network costs this process: time forward and backward of one lane, and memory; the
// last block's includes the loss. Neighbouring blocks run in turn, as in training, each on what the one
// before gave. Makes blocks and forgets them, a few hundred megabytes at a time. Takes a few steps' time.
strategy::LaneCosts measure_lane(const PreparedJob& job, const BlockMeasurement& measurement);
std::vector<strategy::BlockCost> measure_blocks(const PreparedJob& job, const BlockMeasurement& measurement);
// The same of any blocks, with this batch of one lane.
std::vector<strategy::BlockCost> measure_blocks(const model::Blueprint& blueprint, std::uint64_t seed,
                                                const Task& task, TensorBatch batch,
                                                const std::function<double(double)>& largest_of_all = {});

// So that a run that begins with these costs cuts its network accordingly.
void keep_costs(const std::filesystem::path& path, const PreparedJob& job, const strategy::LaneCosts& lane);

}  // namespace distbelief::train
