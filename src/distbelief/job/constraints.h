#pragma once

#include <vector>

#include "distbelief/job/job_check.h"

namespace distbelief::job {

// Settings that are fine each by itself and do not go together. All values must be in range. Pure.
std::vector<Fault> impossible_mixes(const Config& config);

}  // namespace distbelief::job
