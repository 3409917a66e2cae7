#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "distbelief/data/learnt.h"
#include "distbelief/data/source.h"

// What a run knows of its data without the files: data.json of its folder (docs/reference/formats.md).
namespace distbelief::data {

inline constexpr const char* kKnownSetName = "data.json";

struct KnownSet {
  std::string name;  // of the data set
  SampleSpec spec;
  std::shared_ptr<const Learnt> learnt{};  // null: nothing is learnt from such files
  // Of the files (registry.h) as the run began, then one for each time that it went on with others.
  std::vector<std::string> fingerprints{};
  std::uint64_t held_out_of = 0;  // as in DataSet

  bool has_changed() const { return fingerprints.size() > 1; }
};

// Before a run goes on. Which samples are tested on, where files do not say, depends on how many there are:
// of another number nearly all would be samples that were trained on. Throws Error(kBadInput) then.
void require_same_split(const KnownSet& known, const DataSet& now);

std::string to_text(const KnownSet& known);
// Throws Error(kBadInput), beginning with `name`, for anything but a whole file whose parts fit together.
// Memory follows the text's length.
KnownSet parse_known_set(std::string_view text, const std::string& name);
// The same of its part "set" alone, which the checksum is of: for fuzzing, which cannot guess checksums.
KnownSet parse_known_body(std::string_view text, const std::string& name);

// Whole or not at all. Gives false, and writes nothing, when it would be longer than may be read.
bool write_known_set(const std::filesystem::path& folder, const KnownSet& known);
// Of that folder; none in one that has no such file, as folders of earlier versions.
std::optional<KnownSet> read_known_set(const std::filesystem::path& folder);

}  // namespace distbelief::data
