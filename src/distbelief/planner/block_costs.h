#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "distbelief/planner/layout_costs.h"
#include "distbelief/planner/measured_costs.h"
#include "distbelief/run/prepared_job.h"
#include "distbelief/tasks/task.h"

namespace distbelief::planner {

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
LaneCosts measure_lane(const run::PreparedJob& job, const BlockMeasurement& measurement);
std::vector<mesh::BlockCost> measure_blocks(const run::PreparedJob& job, const BlockMeasurement& measurement);
// The same of any blocks, with this batch of one lane.
std::vector<mesh::BlockCost> measure_blocks(const model::Blueprint& blueprint, std::uint64_t seed,
                                            const tasks::Task& task, tasks::TensorBatch batch,
                                            const std::function<double(double)>& largest_of_all = {});

// So that a run that begins with these costs cuts its network accordingly.
void keep_costs(const std::filesystem::path& path, const run::PreparedJob& job, const LaneCosts& lane);

}  // namespace distbelief::planner
