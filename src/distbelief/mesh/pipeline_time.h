#pragma once

#include <limits>
#include <span>

#include "distbelief/mesh/pipeline_schedule.h"

// Predicts the time of a pipeline step. Pure. Any thread.
namespace distbelief::mesh {

// Cost of one lane in one stage, in seconds.
struct StageCost {
  double forward = 0;
  double backward = 0;
  double transfer = 0;  // sending its output to the next stage, and the gradient back
};

// A core for every place.
inline constexpr double kEnoughCores = std::numeric_limits<double>::infinity();

// Predicts the compute time of one step from one cost per stage. All places run their lists. Sends overlap
// with compute; sends on the same link run one after another; sends inside a place are free. `cores` is the
// number of cores for one pipeline (a fraction when several share a host). When more places compute than
// there are cores, all of them slow down equally, as processes of equal priority do.
double simulate_step(PipelineSchedule schedule, const PipelineShape& shape, std::span<const StageCost> costs,
                     double cores = kEnoughCores);

}  // namespace distbelief::mesh
