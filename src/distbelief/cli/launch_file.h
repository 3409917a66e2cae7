#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace distbelief::cli {

// launch.json of a run folder: the arguments of `distbelief launch`. Without torch.
struct LaunchFile {
  std::vector<std::string> program{};  // with its arguments; at least one word
  std::string directory{};             // the working directory of the start
  int workers = 0;
  std::vector<std::string> sets{};
};
// Throws Error(kBadInput) when the file is damaged or missing.
LaunchFile read_launch_file(const std::filesystem::path& path);

}  // namespace distbelief::cli
