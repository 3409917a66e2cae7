#pragma once

#include <optional>

#include "distbelief/base/config.h"
#include "distbelief/cli/job_check.h"

namespace distbelief::cli {

// What parallel.sync = "parameter_server" does not go with, or what goes with it alone; the first such. Pure.
std::optional<Fault> impossible_with_servers(const Config& config);

}  // namespace distbelief::cli
