#pragma once

#include <vector>

#include "distbelief/cli/job_check.h"

namespace distbelief::cli {

// Settings that are fine each by itself and do not go together. All values must be in range. Pure.
std::vector<Fault> impossible_mixes(const Config& config);

}  // namespace distbelief::cli
