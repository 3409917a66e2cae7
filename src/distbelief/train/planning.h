#pragma once

#include "distbelief/strategy/planner.h"
#include "distbelief/train/plan_measurement.h"

// From a job to the planner's input and back. Pure but for what a caller's functions do.
namespace distbelief::train {

using Refusal = std::function<std::optional<std::string>(const Config&)>;

// What the layouts of this job depend on, before anything is measured. `config` as the user wrote it.
strategy::LayoutJob layout_job(const Config& config, const std::vector<int>& workers_per_host);
// Lanes that the job names; 0: none.
std::int64_t given_lanes(const Config& config);

struct PlanRequest {
  Config config;
  std::vector<int> workers_per_host;
  std::size_t memory_limit = 0;  // per worker; 0: none
  Refusal refused = {};          // why a job with a layout filled in cannot be trained
};
strategy::Plan plan_job(const PlanRequest& request, const PlanMeasurement& measured);

// The job with a layout filled in.
Config with_layout(Config config, const strategy::MeshLayout& layout);

nlohmann::json to_json(const strategy::PlannedLayout& planned);
nlohmann::json to_json(const strategy::LeftOut& left);

}  // namespace distbelief::train
