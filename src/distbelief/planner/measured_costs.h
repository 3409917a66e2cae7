#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "distbelief/planner/layout_costs.h"

// JSON of measured costs: blocks.json of a run folder, and the answer of workers that measure for a plan.
// Without torch. The parsers throw Error(kBadInput) for other content.
namespace distbelief::planner {

// Measurements of a job on these machines, for the planner.
struct PlanMeasurement {
  MachineCosts machine;
  std::vector<LaneCosts> lanes;  // ascending by size
  std::int64_t validated = 0;    // samples per validation batch
};

nlohmann::json to_json(const std::vector<mesh::BlockCost>& blocks);
std::vector<mesh::BlockCost> block_costs_from_json(const nlohmann::json& json);

nlohmann::json to_json(const PlanMeasurement& measurement);
PlanMeasurement plan_measurement_from_json(const nlohmann::json& json);

}  // namespace distbelief::planner
