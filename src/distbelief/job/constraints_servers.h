#pragma once

#include <optional>

#include "distbelief/base/config.h"
#include "distbelief/job/job_check.h"

namespace distbelief::job {

// The first setting that does not go with parallel.sync = "parameter_server", or goes only with it. Pure.
std::optional<Fault> impossible_with_servers(const Config& config);

}  // namespace distbelief::job
