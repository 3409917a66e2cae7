#pragma once

#include <string>
#include <vector>

#include "distbelief/base/config.h"

// Parameter servers that several runs use: where they are, and under which name a run is known there.
namespace distbelief::cli {

// `place`: the folder of `distbelief servers`, whose supervisor is asked, or addresses with commas between.
// Throws Error.
std::vector<std::string> targets_of_standing(const std::string& place);

// The same when some of them may have been replaced since they listened at `known`: whoever is still there is
// asked, by folder or address. These, when nobody answers.
std::vector<std::string> present_targets(const Config& config, const std::string& place,
                                         const std::vector<std::string>& known);

// A name that nobody can guess: whoever has it may read and change what the run has on the servers.
std::string draw_job_name(const std::string& run);

}  // namespace distbelief::cli
