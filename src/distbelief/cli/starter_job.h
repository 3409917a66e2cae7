#pragma once

#include <string>

#include "distbelief/data/inspect.h"

namespace distbelief::cli {

// A commented job file for the data found at `path`: a small model that trains within minutes on a few cores.
// Pure.
std::string starter_job(const data::Finding& finding, const std::string& path);

// Replaces line breaks and other control characters, which names in the data may contain.
std::string in_one_line(std::string note);

}  // namespace distbelief::cli
