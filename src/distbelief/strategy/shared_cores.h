#pragma once

#include <span>

#include "distbelief/strategy/pipeline_schedule.h"

// A step of a pipeline whose places may have to share cores. Pure. Any thread.
namespace distbelief::strategy {

struct CoreShare {
  double cores = 1;  // for the places of one pipeline; may be a fraction when several pipelines share a host
};

// As simulate_step(), on so many cores: when more places compute than there are cores, all of them go on more
// slowly, as processes of equal priority do. With a core for every place it is simulate_step().
double simulate_step(PipelineSchedule schedule, const PipelineShape& shape, std::span<const StageCost> costs,
                     const CoreShare& share);

}  // namespace distbelief::strategy
