#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "distbelief/data/source.h"

// One slice: neighbouring samples compressed with zstd. docs/reference/formats.md defines the bytes. Pure
// functions; the caller's limits bound the memory, never sizes claimed in the data.
namespace distbelief::data {

inline constexpr std::size_t kSliceHeaderBytes = 40;
inline constexpr std::uint64_t kMostSliceBytes = std::uint64_t{1} << 30;  // decompressed

// The bytes of one sample in a slice.
struct SampleBytes {
  std::uint64_t input = 0;
  std::uint64_t target = 0;
  std::uint64_t sum() const { return input + target; }
};
SampleBytes sample_bytes(const SampleSpec& spec);

// The largest possible slice of so many raw bytes: the header plus zstd's bound for incompressible data.
std::uint64_t most_slice_bytes(std::uint64_t raw_bytes);

struct SliceHeader {
  std::uint64_t samples = 0;
  std::uint64_t raw_bytes = 0;      // decompressed
  std::uint64_t payload_bytes = 0;  // after the header
  std::uint64_t xxh3 = 0;           // checksum of the header up to this field and of the payload
};

// The position of bytes, for messages: "'train-00001.slices', byte 4096".
struct SlicePlace {
  std::string file;
  std::uint64_t offset = 0;
};

// `raw` holds the inputs of all samples, then their targets.
std::vector<std::uint8_t> encode_slice(std::span<const std::uint8_t> raw, std::uint64_t samples, int level);

// Throws Error(kBadInput) with file and offset unless the bytes begin with a whole slice.
SliceHeader parse_slice_header(std::span<const std::uint8_t> bytes, const SlicePlace& place);

// Computes the checksum for a slice's header.
std::uint64_t slice_checksum(std::span<const std::uint8_t> slice);

// Decodes exactly one slice of samples of `each` bytes. Throws Error(kBadInput) with file and offset for
// damage, and for more than `most_raw_bytes`.
std::vector<std::uint8_t> decode_slice(std::span<const std::uint8_t> bytes, std::uint64_t each,
                                       std::uint64_t most_raw_bytes, const SlicePlace& place);

}  // namespace distbelief::data
