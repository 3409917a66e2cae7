#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "distbelief/base/options.h"

namespace distbelief::data {

enum class FindingKind { kImages, kTokens, kFeatureClasses, kFeatureValues, kTrees };

// What a file or folder seems to hold: enough to write a job for it.
struct Finding {
  std::string data_set;  // a name of the registry
  FindingKind kind = FindingKind::kImages;
  OptionMap options{};               // of the data set, where its defaults do not fit
  std::vector<std::string> notes{};  // for people: what was seen, and what was chosen because of it
  std::int64_t side = 0;             // images: pixels of a sample
  std::int64_t names = 0;            // trees: different names of nodes
  std::uint64_t samples = 0;         // about, to train on
};

// The ending that tells a file's kind, in small letters: of "a.CSV.gz" it is ".csv".
std::string kind_ending(const std::filesystem::path& path);
// Whether the start of a file, plain or gzip, has no bytes that text has not.
bool looks_like_text(const std::filesystem::path& path);

// Looks at names, headers and first bytes; of tables and text at all of it. Throws Error(kUnavailable) when
// there is nothing, Error(kBadInput) when it is nothing that can be trained on, or is damaged.
Finding inspect(const std::filesystem::path& path);

}  // namespace distbelief::data
