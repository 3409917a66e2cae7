#pragma once

#include <string>

#include "distbelief/data/inspect.h"

namespace distbelief::cli {

// A job file for what was found at `path`, with comments: a small model that trains within minutes on a few
// cores. Pure.
std::string starter_job(const data::Finding& finding, const std::string& path);

// Without line breaks and other controls, which names in the data may have.
std::string in_one_line(std::string note);

}  // namespace distbelief::cli
