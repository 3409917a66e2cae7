#pragma once

#include <optional>

#include "distbelief/base/config.h"
#include "distbelief/job/job_check.h"

namespace distbelief::job {

// The first setting that does not go with train.optimizer = "lbfgs", or goes only with it; nothing: there is
// none.
std::optional<Fault> impossible_with_lbfgs(const Config& config);

}  // namespace distbelief::job
