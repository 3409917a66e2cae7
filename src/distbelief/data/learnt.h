#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "distbelief/data/formats/table.h"
#include "distbelief/data/formats/tree.h"
#include "distbelief/data/formats/vocabulary.h"
#include "distbelief/data/image/decoder.h"

namespace distbelief::data {

// The fitted preprocessing: how file contents become sample values and back, as far as the training files or
// the options of the data set decide it. Immutable once filled; any thread may read it.
struct Learnt {
  std::optional<TableSchema> table{};
  std::optional<Vocabulary> vocabulary{};
  TreeTokens tree_tokens{};  // empty: no trees
  std::optional<ImageSettings> images{};
};

// Both as JSON, in data.json of a run (known_set.h) and in the index of packed slices (slices/index.h).
// Numbers return with the same bits and text with the same bytes. Reading throws Error(kBadInput) with only
// the reason, and nlohmann's exceptions for missing or wrongly typed values. Memory follows the length of the
// text.
nlohmann::json to_json(const SampleSpec& spec);
SampleSpec spec_from_json(const nlohmann::json& from);
nlohmann::json to_json(const Learnt& learnt);
// Throws Error(kBadInput) with the difference unless a network for samples of `known` also takes samples of
// `found` and predicts the same classes.
void require_same_samples(const SampleSpec& known, const SampleSpec& found);
// Throws Error(kBadInput) when the preprocessing does not produce samples of `spec`.
Learnt learnt_from_json(const nlohmann::json& from, const SampleSpec& spec);

}  // namespace distbelief::data
