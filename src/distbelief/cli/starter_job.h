#pragma once

#include <string>

#include "distbelief/data/inspect.h"

namespace distbelief::cli {

// A job file for what was found at `path`, with comments: a small model that trains within minutes on a few
// cores. Pure.
std::string starter_job(const data::Finding& finding, const std::string& path);

}  // namespace distbelief::cli
