#pragma once

#include <optional>

#include "distbelief/base/config.h"
#include "distbelief/job/job_check.h"

namespace distbelief::job {

// What does not go with train.optimizer = "lbfgs", or only with it. Nothing: all is well.
std::optional<Fault> impossible_with_lbfgs(const Config& config);

}  // namespace distbelief::job
