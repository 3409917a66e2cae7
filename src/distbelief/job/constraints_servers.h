#pragma once

#include <optional>

#include "distbelief/base/config.h"
#include "distbelief/job/job_check.h"

namespace distbelief::job {

// What parallel.sync = "parameter_server" does not go with, or what goes with it alone; the first such. Pure.
std::optional<Fault> impossible_with_servers(const Config& config);

}  // namespace distbelief::job
