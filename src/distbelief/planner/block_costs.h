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
  std::int64_t samples = 1;  // per lane
  // File to read instead of measuring again if it belongs to the same job; may be empty.
  std::filesystem::path kept_in{};
  // When several workers measure at the same time: returns the largest of all workers' values. Collective.
  // The workers synchronize before each run of the blocks, so that they slow each other down as in training.
  std::function<double(double)> largest_of_all{};
};

// Measures the cost of each block of a network in this process: forward and backward time of one lane, and
// memory; the last block's cost includes the loss. Consecutive blocks run in turn, as in training, each on
// the previous output. Builds and frees blocks, a few hundred megabytes at a time. Takes the time of a few
// steps.
LaneCosts measure_lane(const run::PreparedJob& job, const BlockMeasurement& measurement);
std::vector<mesh::BlockCost> measure_blocks(const run::PreparedJob& job, const BlockMeasurement& measurement);
// The same for any blocks, with a given batch of one lane.
std::vector<mesh::BlockCost> measure_blocks(const model::Blueprint& blueprint, std::uint64_t seed,
                                            const tasks::Task& task, tasks::TensorBatch batch,
                                            const std::function<double(double)>& largest_of_all = {});

// Stores the costs, so that a run that starts with them cuts its network accordingly.
void keep_costs(const std::filesystem::path& path, const run::PreparedJob& job, const LaneCosts& lane);

}  // namespace distbelief::planner
