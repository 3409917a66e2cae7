#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "distbelief/data/formats/table.h"
#include "distbelief/data/formats/tree.h"
#include "distbelief/data/formats/vocabulary.h"
#include "distbelief/data/image/decoder.h"

namespace distbelief::data {

// How what stands in files becomes the numbers of samples, and back, as far as the files that were trained on
// decide it, or options of their data set. Immutable once filled; any thread may read it.
struct Learnt {
  std::optional<TableSchema> table{};
  std::optional<Vocabulary> vocabulary{};
  TreeTokens tree_tokens{};  // empty: no trees
  std::optional<ImageSettings> images{};
};

// Both as JSON, in data.json of a run (known_set.h) and the index of packed slices (slices/index.h). Numbers
// come back with the same bits, text with the same bytes, whatever they are. Reading throws Error(kBadInput)
// with the reason alone, and nlohmann's exceptions where something is missing or of another kind. Memory
// follows the text's length.
nlohmann::json to_json(const SampleSpec& spec);
SampleSpec spec_from_json(const nlohmann::json& from);
nlohmann::json to_json(const Learnt& learnt);
// Throws Error(kBadInput), with what differs, unless a network that takes the one takes the other and answers
// with the same classes.
void require_same_samples(const SampleSpec& known, const SampleSpec& found);
// Refuses what does not make samples of that kind.
Learnt learnt_from_json(const nlohmann::json& from, const SampleSpec& spec);

}  // namespace distbelief::data
