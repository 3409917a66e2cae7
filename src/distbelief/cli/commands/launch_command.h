#pragma once

#include <string>
#include <vector>

#include "distbelief/cli/commands.h"

namespace distbelief::cli {

struct LaunchFlags {
  std::string run_dir{};
  std::vector<std::string> sets{};
  int workers = 0;                     // 0: as in the earlier start, or 2
  std::vector<std::string> program{};  // the user's program and its arguments
};

// Resumes the run of a user's program.
int resume_launched(const LaunchFlags& flags);

}  // namespace distbelief::cli
