#include "distbelief/model/fbnet_architecture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <sstream>

#include "distbelief/base/error.h"

namespace distbelief::model {
namespace {

std::vector<std::string> names_of(const std::vector<Candidate>& candidates) {
  std::vector<std::string> names;
  for (const Candidate& candidate : candidates) names.push_back(candidate_name(candidate));
  return names;
}

}  // namespace

std::string candidate_name(const Candidate& candidate) {
  if (candidate.kernel == 0) return "skip";
  return fmt::format("k{}_e{}{}", candidate.kernel, candidate.expansion,
                     candidate.groups > 1 ? fmt::format("_g{}", candidate.groups) : "");
}

std::string architecture_text(const std::vector<Candidate>& architecture) {
  return fmt::format("{}", fmt::join(names_of(architecture), " "));
}

std::vector<Candidate> candidates_of(const FbnetLayer& layer) {
  std::vector<Candidate> all;
  for (const std::int64_t kernel : {3, 5})
    for (const std::int64_t expansion : {1, 3})
      for (const std::int64_t groups : {1, 2})
        all.push_back({.kernel = kernel, .expansion = expansion, .groups = groups});
  if (layer.keeps_shape()) all.push_back({});
  return all;
}

std::vector<Candidate> parse_architecture(const std::string& text, const std::vector<FbnetLayer>& layers) {
  if (text.empty()) return std::vector<Candidate>(layers.size(), Candidate{.kernel = 3, .expansion = 3});
  std::istringstream words(text);
  std::vector<Candidate> found;
  for (std::string word; words >> word && found.size() < layers.size();) {
    const std::vector<Candidate> all = candidates_of(layers[found.size()]);
    const std::vector<std::string> names = names_of(all);
    const auto match = std::find(names.begin(), names.end(), word);
    if (match == names.end())
      throw Error(ErrorCode::kBadInput,
                  fmt::format("model 'fbnet': layer {} of option 'architecture' may be one of {}, found '{}'",
                              found.size() + 1, fmt::join(names, ", "), word),
                  {.key = "model.architecture"});
    found.push_back(all[std::size_t(match - names.begin())]);
  }
  std::istringstream again(text);
  const auto given = std::distance(std::istream_iterator<std::string>(again), {});
  if (std::size_t(given) != layers.size())
    throw Error(ErrorCode::kBadInput,
                fmt::format("model 'fbnet': option 'architecture' wants {} layers (depth times widths), "
                            "found {}",
                            layers.size(), given),
                {.key = "model.architecture"});
  return found;
}

}  // namespace distbelief::model
