#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace distbelief::run {

// The centres of the clusters of codes: clusters.json of a run folder (clusters.h). Without torch.
struct CodeClusters {
  std::vector<double> centres;
  std::size_t width = 0;  // width of a code

  // Empty when the file is missing, or belongs to weights with another hash.
  static std::optional<CodeClusters> load(const std::filesystem::path& run_dir, const std::string& weights);
};

}  // namespace distbelief::run
