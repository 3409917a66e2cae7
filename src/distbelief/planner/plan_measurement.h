#pragma once

#include <functional>
#include <vector>

#include "distbelief/comm/world.h"
#include "distbelief/planner/measured_costs.h"
#include "distbelief/run/prepared_job.h"

namespace distbelief::planner {

struct PlanMeasurementOptions {
  std::vector<std::int64_t> lane_sizes;  // in samples
  // Makes the allocator return memory to the system; may be empty.
  std::function<void()> release_unused_memory;
};

// Measures blocks, sums and updates, copies and the link between hosts, while all workers do the same at the
// same time, as in training. `config` is resolved; its network is never whole in memory. Collective; returns
// the same result on all workers. Takes a few seconds.
PlanMeasurement measure_for_plan(World& world, const Config& config, const PlanMeasurementOptions& options);

}  // namespace distbelief::planner
