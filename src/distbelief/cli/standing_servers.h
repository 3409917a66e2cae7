#pragma once

#include <string>
#include <vector>

#include "distbelief/base/config.h"

// Standing parameter servers that several runs use: their addresses, and a run's name there.
namespace distbelief::cli {

// The servers' addresses. `place` is the folder of `distbelief servers`, whose supervisor is asked, or
// addresses separated by commas. Throws Error.
std::vector<std::string> targets_of_standing(const std::string& place);

// The current addresses, if some servers may have been replaced since they listened at `known`. Asks the
// supervisor in the folder, or any server that still answers. Returns `known` when nobody answers.
std::vector<std::string> present_targets(const Config& config, const std::string& place,
                                         const std::vector<std::string>& known);

// Draws a secret name: any process that knows it may read and change the run's state on the servers.
std::string draw_job_name(const std::string& run);

}  // namespace distbelief::cli
