#pragma once

#include <optional>
#include <vector>

#include "distbelief/cli/commands.h"
#include "distbelief/cluster/hosts.h"
#include "distbelief/job/job_file.h"
#include "distbelief/planner/planning.h"

namespace distbelief::cli {

// A job with a chosen layout.
struct ChosenLayout {
  Config config;                // with the layout's numbers filled in; parallel.mesh is "given"
  planner::LaneCosts measured;  // costs of its lanes
};

// Implements parallel.mesh = "auto": measures, plans, and chooses the best layout that fits into this
// machine's memory; prints it in one line. `job` is valid and its number of workers is set. Starts workers
// and waits for them. Returns nothing when interrupted. Throws Error(kBadInput) when no layout fits.
std::optional<ChosenLayout> choose_layout(const job::Job& job, const std::vector<cluster::HostSlots>& hosts);

}  // namespace distbelief::cli
