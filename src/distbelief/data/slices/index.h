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
  std::uint64_t first = 0;  // its samples are [first, first + samples)
  std::uint64_t samples = 0;
  std::uint64_t file = 0;    // in PartIndex::files
  std::uint64_t offset = 0;  // in the file
  std::uint64_t bytes = 0;   // there
  std::uint64_t raw_bytes = 0;
  std::uint64_t xxh3 = 0;
};

struct PartIndex {
  std::uint64_t samples = 0;
  std::vector<std::string> files;
  std::vector<SliceEntry> slices;
  std::vector<std::uint64_t> balance;  // samples of each class; empty when samples have not one class each
};

// What index.json says of a packed set. Slice i of a part has samples [i * slice_samples, ...).
struct SliceIndex {
  std::string origin;  // what was packed, for people
  SampleSpec spec;
  std::shared_ptr<const Learnt> learnt{};  // null: nothing, or packed by an earlier version
  std::uint64_t slice_samples = 0;
  PartIndex train;
  PartIndex test;
};

std::string to_text(const SliceIndex& index);

// Throws Error(kBadInput), beginning with `name`, for anything but a whole index in which every slice is
// where it must be and no longer than its samples allow. Memory follows the text's length.
SliceIndex parse_slice_index(std::string_view text, const std::string& name);

// The same of its part "set" alone, which the checksum is of: for fuzzing, which cannot guess checksums.
SliceIndex parse_slice_set(std::string_view text, const std::string& name);

std::uint64_t packed_bytes(const PartIndex& part);  // of all its slices

}  // namespace distbelief::data
