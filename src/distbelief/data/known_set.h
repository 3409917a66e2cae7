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

// The data manifest: all that a run must know of its data without the files. Stored as data.json in the run
// folder (docs/reference/formats.md).
namespace distbelief::data {

inline constexpr const char* kKnownSetName = "data.json";

struct KnownSet {
  std::string name;  // name of the data set
  SampleSpec spec;
  std::shared_ptr<const Learnt> learnt{};  // null: nothing was fitted on the files
  // Fingerprints of the files (registry.h): when the run began, then one for each time it resumed with
  // changed files.
  std::vector<std::string> fingerprints{};
  std::uint64_t held_out_of = 0;  // as in DataSet

  bool has_changed() const { return fingerprints.size() > 1; }
};

// Checks the split when a run resumes. If the files do not define the test part, the split depends on the
// number of samples: with another number, most test samples would have been training samples. Throws
// Error(kBadInput) in that case.
void require_same_split(const KnownSet& known, const DataSet& now);

std::string to_text(const KnownSet& known);
// Throws Error(kBadInput), beginning with `name`, unless the text is a complete and consistent manifest.
// Memory follows the length of the text.
KnownSet parse_known_set(std::string_view text, const std::string& name);
// Parses only the part "set", without its checksum: for fuzzing, which cannot guess checksums.
KnownSet parse_known_body(std::string_view text, const std::string& name);

// Writes the manifest atomically. Returns false and writes nothing when it would exceed the limit for
// reading.
bool write_known_set(const std::filesystem::path& folder, const KnownSet& known);
// The manifest in `folder`; none when the file is missing, as in folders of earlier versions.
std::optional<KnownSet> read_known_set(const std::filesystem::path& folder);

}  // namespace distbelief::data
