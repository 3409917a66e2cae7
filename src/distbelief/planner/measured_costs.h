#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "distbelief/planner/layout_costs.h"

// What was measured of a job, as JSON: blocks.json of a run folder, and what workers that measure for a plan
// answer. Without torch. What reads throws Error(kBadInput) for what is none of it.
namespace distbelief::planner {

// What the planner wants to know of a job on these machines.
struct PlanMeasurement {
  MachineCosts machine;
  std::vector<LaneCosts> lanes;  // by size
  std::int64_t validated = 0;    // samples of a batch of validation
};

nlohmann::json to_json(const std::vector<mesh::BlockCost>& blocks);
std::vector<mesh::BlockCost> block_costs_from_json(const nlohmann::json& json);

nlohmann::json to_json(const PlanMeasurement& measurement);
PlanMeasurement plan_measurement_from_json(const nlohmann::json& json);

}  // namespace distbelief::planner
