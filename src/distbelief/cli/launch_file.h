#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace distbelief::cli {

// launch.json of a run folder: what `distbelief launch` was started with. Without torch.
struct LaunchFile {
  std::vector<std::string> program{};  // and its arguments; at least one word
  std::string directory{};             // where it was started
  int workers = 0;
  std::vector<std::string> sets{};
};
// Throws Error(kBadInput) for one that is damaged or is not there.
LaunchFile read_launch_file(const std::filesystem::path& path);

}  // namespace distbelief::cli
