#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "distbelief/base/options.h"

namespace distbelief::data {

enum class FindingKind { kImages, kTokens, kFeatureClasses, kFeatureValues, kTrees };

// The inferred contents of a file or folder: enough to write a job file for it.
struct Finding {
  std::string data_set;  // a name in the registry
  FindingKind kind = FindingKind::kImages;
  OptionMap options{};               // data set options whose defaults do not fit
  std::vector<std::string> notes{};  // for the user: the observations and the choices that follow from them
  std::int64_t side = 0;             // images: side of a sample in pixels
  std::int64_t names = 0;            // trees: number of distinct node names
  std::uint64_t samples = 0;         // approximate number of training samples
};

// The ending that tells the kind of a file, in lower case: ".csv" for "a.CSV.gz".
std::string kind_ending(const std::filesystem::path& path);
// Whether the start of a file, plain or gzip, contains only bytes that occur in text.
bool looks_like_text(const std::filesystem::path& path);

// Inspects names, headers and first bytes; reads tables and text whole. Throws Error(kUnavailable) when
// nothing is at `path`, and Error(kBadInput) when it is damaged or cannot be trained on.
Finding inspect(const std::filesystem::path& path);

}  // namespace distbelief::data
