#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "distbelief/data/source.h"

namespace distbelief::data {

inline constexpr std::string_view kIndexName = "index.json";
inline constexpr std::uint64_t kMostIndexBytes = std::uint64_t{16} << 20;

inline constexpr std::int64_t kMostClasses = std::int64_t{1} << 24;

struct SliceEntry {
  std::uint64_t first = 0;  // it holds samples [first, first + samples)
  std::uint64_t samples = 0;
  std::uint64_t file = 0;    // index into PartIndex::files
  std::uint64_t offset = 0;  // in the file
  std::uint64_t bytes = 0;   // stored size
  std::uint64_t raw_bytes = 0;
  std::uint64_t xxh3 = 0;
};

struct PartIndex {
  std::uint64_t samples = 0;
  std::vector<std::string> files;
  std::vector<SliceEntry> slices;
  std::vector<std::uint64_t> balance;  // samples per class; empty unless every sample has exactly one class
};

// The contents of index.json of a packed set. Slice i of a part holds samples [i * slice_samples, ...).
struct SliceIndex {
  std::string origin;  // name of the packed data, for the user
  SampleSpec spec;
  std::shared_ptr<const Learnt> learnt{};  // null: none, or packed by an earlier version
  std::uint64_t slice_samples = 0;
  PartIndex train;
  PartIndex test;
};

std::string to_text(const SliceIndex& index);

// Throws Error(kBadInput), beginning with `name`, unless the index is complete and every slice has the
// expected position and a length that its samples allow. Memory follows the length of the text.
SliceIndex parse_slice_index(std::string_view text, const std::string& name);

// Parses only the part "set", without its checksum: for fuzzing, which cannot guess checksums.
SliceIndex parse_slice_set(std::string_view text, const std::string& name);

std::uint64_t packed_bytes(const PartIndex& part);  // sum over its slices

}  // namespace distbelief::data
