#pragma once

#include <string>

namespace distbelief::job {

// A Markdown table of every key: type, what it may be, default, meaning. docs/reference/job_file.md contains
// it.
std::string job_file_reference();

}  // namespace distbelief::job
