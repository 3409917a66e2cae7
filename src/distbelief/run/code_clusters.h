#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace distbelief::run {

// The centres of the groups that codes fall in: clusters.json of a run folder (clusters.h). Without torch.
struct CodeClusters {
  std::vector<double> centres;
  std::size_t width = 0;  // of a code

  // None when there are none, or when they belong to other weights than those with that hash.
  static std::optional<CodeClusters> load(const std::filesystem::path& run_dir, const std::string& weights);
};

}  // namespace distbelief::run
