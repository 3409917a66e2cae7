#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "distbelief/comm/world.h"
#include "distbelief/strategy/layout_costs.h"
#include "distbelief/train/job.h"

namespace distbelief::train {

// What the planner wants to know of this job on these machines.
struct PlanMeasurement {
  strategy::MachineCosts machine;
  std::vector<strategy::LaneCosts> lanes;  // by size
  std::int64_t validated = 0;              // samples of a batch of validation
};

struct PlanMeasurementOptions {
  std::vector<std::int64_t> lane_sizes;         // in samples
  std::function<void()> release_unused_memory;  // by the allocator, back to the system; may be empty
};

// Measures blocks, sums and updates, copies and the link between hosts, while all workers do the same at the
// same time, as they will in training. `config` is resolved; its network is never whole in memory.
// Collective; the same result on all. Takes a few seconds.
PlanMeasurement measure_for_plan(World& world, const Config& config, const PlanMeasurementOptions& options);

nlohmann::json to_json(const PlanMeasurement& measurement);
PlanMeasurement plan_measurement_from_json(const nlohmann::json& json);

}  // namespace distbelief::train
