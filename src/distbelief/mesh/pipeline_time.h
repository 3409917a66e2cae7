#pragma once

#include <limits>
#include <span>

#include "distbelief/mesh/pipeline_schedule.h"

// How long a step of a pipeline takes. Pure. Any thread.
namespace distbelief::mesh {

// What one lane costs in one stage, in seconds.
struct StageCost {
  double forward = 0;
  double backward = 0;
  double transfer = 0;  // of its output to the next stage, and of the gradient back
};

// A core for every place.
inline constexpr double kEnoughCores = std::numeric_limits<double>::infinity();

// The predicted time of one step's compute, from one cost per stage: all places run their lists; sends go on
// beside compute, those from one place to another one after the other; inside a place they cost nothing. When
// more places compute than there are cores (of one pipeline; a fraction when several share a host), all of
// them go on more slowly, as processes of equal priority do.
double simulate_step(PipelineSchedule schedule, const PipelineShape& shape, std::span<const StageCost> costs,
                     double cores = kEnoughCores);

}  // namespace distbelief::mesh
