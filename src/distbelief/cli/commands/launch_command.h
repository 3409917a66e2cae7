#pragma once

#include <string>
#include <vector>

#include "distbelief/cli/commands.h"

namespace distbelief::cli {

struct LaunchFlags {
  std::string run_dir{};
  std::vector<std::string> sets{};
  int workers = 0;                     // 0: as before, or 2
  std::vector<std::string> program{};  // of the user, with its arguments
};

// Goes on with the run of a user's program.
int resume_launched(const LaunchFlags& flags);

}  // namespace distbelief::cli
