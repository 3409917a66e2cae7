#pragma once

#include "distbelief/planner/plan_measurement.h"
#include "distbelief/planner/planner.h"

// Converts a job to the planner's input and a layout back to a job. Pure, except for the caller's functions.
namespace distbelief::planner {

using Refusal = std::function<std::optional<std::string>(const Config&)>;

// The properties that the layouts of this job depend on, before any measurement. `config` as the user wrote
// it.
LayoutJob layout_job(const Config& config, const std::vector<int>& workers_per_host);
// Lanes that the job sets; 0: none.
std::int64_t given_lanes(const Config& config);

struct PlanRequest {
  Config config;
  std::vector<int> workers_per_host;
  std::size_t memory_limit = 0;  // per worker; 0: none
  Refusal refused = {};          // returns why a job with a given layout cannot be trained
};
Plan plan_job(const PlanRequest& request, const PlanMeasurement& measured);

// Returns the job with a layout filled in.
Config with_layout(Config config, const MeshLayout& layout);

nlohmann::json to_json(const PlannedLayout& planned);
nlohmann::json to_json(const LeftOut& left);

}  // namespace distbelief::planner
