#include "distbelief/run/code_clusters.h"

#include <nlohmann/json.hpp>

#include "distbelief/base/json_text.h"

namespace distbelief::run {

using Json = nlohmann::json;

std::optional<CodeClusters> CodeClusters::load(const std::filesystem::path& run_dir,
                                               const std::string& weights) {
  const Json found = read_json(run_dir / "clusters.json");
  try {
    if (!found.is_object() || found.at("weights_sha256") != weights) return {};
    CodeClusters clusters;
    for (const Json& row : found.at("centres")) {
      const auto centre = row.get<std::vector<double>>();
      if (centre.empty() || (clusters.width > 0 && centre.size() != clusters.width)) return {};
      clusters.width = centre.size();
      clusters.centres.insert(clusters.centres.end(), centre.begin(), centre.end());
    }
    return clusters.width > 0 ? std::optional(clusters) : std::nullopt;
  } catch (const Json::exception&) {  // a foreign file of that name
    return {};
  }
}

}  // namespace distbelief::run
