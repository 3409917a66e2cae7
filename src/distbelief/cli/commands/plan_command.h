#pragma once

#include <optional>
#include <vector>

#include "distbelief/cli/commands.h"
#include "distbelief/cluster/hosts.h"
#include "distbelief/job/job_file.h"
#include "distbelief/planner/planning.h"

namespace distbelief::cli {

// A job whose layout was chosen.
struct ChosenLayout {
  Config config;                // with the numbers filled in; parallel.mesh is "given"
  planner::LaneCosts measured;  // of its lanes
};

// For parallel.mesh = "auto": measures, plans and takes the best layout that fits the memory of this machine;
// says so in a line. `job` is valid and its workers are counted. Starts workers and waits for them.
// Nothing when interrupted. Throws Error(kBadInput) when no layout fits.
std::optional<ChosenLayout> choose_layout(const job::Job& job, const std::vector<cluster::HostSlots>& hosts);

}  // namespace distbelief::cli
