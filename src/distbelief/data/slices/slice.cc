#include "distbelief/data/slices/slice.h"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "distbelief/base/error.h"
#include "distbelief/base/hash.h"

namespace distbelief::data {
namespace {

static_assert(std::endian::native == std::endian::little, "slices are little-endian");

constexpr std::string_view kSliceMagic = "DBSLICE1";
constexpr std::size_t kChecksumAt = kSliceHeaderBytes - sizeof(std::uint64_t);

std::uint64_t word_at(std::span<const std::uint8_t> bytes, std::size_t at) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

Error damaged_slice(const SlicePlace& place, std::uint64_t within, const std::string& reason) {
  return Error(ErrorCode::kBadInput, fmt::format("'{}', byte {}: {}; fetch or pack the set again", place.file,
                                                 place.offset + within, reason));
}

void decompress(std::span<const std::uint8_t> payload, std::vector<std::uint8_t>& raw,
                const SlicePlace& place) {
  const std::size_t made = ZSTD_decompress(raw.data(), raw.size(), payload.data(), payload.size());
  if (ZSTD_isError(made))
    throw damaged_slice(place, kSliceHeaderBytes,
                        fmt::format("the slice cannot be decompressed: {}", ZSTD_getErrorName(made)));
  if (made != raw.size())
    throw damaged_slice(place, kSliceHeaderBytes,
                        fmt::format("the slice should have {} bytes, it has {}", raw.size(), made));
}

}  // namespace

SampleBytes sample_bytes(const SampleSpec& spec) {
  const auto bytes = [](ElementType type, const Shape& shape) {
    return static_cast<std::uint64_t>(element_count(shape)) * element_size(type);
  };
  return {bytes(spec.input_type, spec.input_shape), bytes(spec.target_type, spec.target_shape)};
}

std::uint64_t most_slice_bytes(std::uint64_t raw_bytes) {
  return kSliceHeaderBytes + ZSTD_compressBound(raw_bytes);
}

std::vector<std::uint8_t> encode_slice(std::span<const std::uint8_t> raw, std::uint64_t samples, int level) {
  std::vector<std::uint8_t> slice(most_slice_bytes(raw.size()));
  const std::size_t made = ZSTD_compress(slice.data() + kSliceHeaderBytes, slice.size() - kSliceHeaderBytes,
                                         raw.data(), raw.size(), level);
  if (ZSTD_isError(made))
    throw Error(ErrorCode::kInternal, fmt::format("zstd cannot compress: {}", ZSTD_getErrorName(made)));
  slice.resize(kSliceHeaderBytes + made);
  std::memcpy(slice.data(), kSliceMagic.data(), kSliceMagic.size());
  const std::uint64_t words[] = {samples, raw.size(), made};
  std::memcpy(slice.data() + kSliceMagic.size(), words, sizeof words);
  const std::uint64_t sum = slice_checksum(slice);
  std::memcpy(slice.data() + kChecksumAt, &sum, sizeof sum);
  return slice;
}

SliceHeader parse_slice_header(std::span<const std::uint8_t> bytes, const SlicePlace& place) {
  if (bytes.size() < kSliceHeaderBytes)
    throw damaged_slice(place, bytes.size(), "the file ends within a slice's header");
  if (!std::equal(kSliceMagic.begin(), kSliceMagic.end(), bytes.begin()))
    throw damaged_slice(place, 0, "no slice begins here");
  const SliceHeader header{.samples = word_at(bytes, 8),
                           .raw_bytes = word_at(bytes, 16),
                           .payload_bytes = word_at(bytes, 24),
                           .xxh3 = word_at(bytes, kChecksumAt)};
  if (header.payload_bytes > bytes.size() - kSliceHeaderBytes)
    throw damaged_slice(place, bytes.size(),
                        fmt::format("the slice should have {} bytes after its header, there are {}",
                                    header.payload_bytes, bytes.size() - kSliceHeaderBytes));
  return header;
}

std::uint64_t slice_checksum(std::span<const std::uint8_t> slice) {
  Xxh3 sum;
  sum.update(slice.data(), kChecksumAt);
  sum.update(slice.data() + kSliceHeaderBytes, slice.size() - kSliceHeaderBytes);
  return sum.value();
}

std::vector<std::uint8_t> decode_slice(std::span<const std::uint8_t> bytes, std::uint64_t each,
                                       std::uint64_t most_raw_bytes, const SlicePlace& place) {
  const SliceHeader header = parse_slice_header(bytes, place);
  if (bytes.size() != kSliceHeaderBytes + header.payload_bytes)
    throw damaged_slice(place, kSliceHeaderBytes + header.payload_bytes, "bytes follow after the slice");
  if (const std::uint64_t sum = slice_checksum(bytes); sum != header.xxh3)
    throw damaged_slice(
        place, 0, fmt::format("the slice's checksum is {:016x}, it should be {:016x}", sum, header.xxh3));
  if (header.raw_bytes > most_raw_bytes || each == 0 || header.samples > header.raw_bytes ||
      header.samples * each != header.raw_bytes)
    throw damaged_slice(place, 8,
                        fmt::format("{} samples of {} bytes, at most {} in all, do not make {} bytes",
                                    header.samples, each, most_raw_bytes, header.raw_bytes));
  const auto payload = bytes.subspan(kSliceHeaderBytes);
  if (ZSTD_getFrameContentSize(payload.data(), payload.size()) != header.raw_bytes)
    throw damaged_slice(place, kSliceHeaderBytes, "the compressed data is of another length");
  std::vector<std::uint8_t> raw(header.raw_bytes);
  decompress(payload, raw, place);
  return raw;
}

}  // namespace distbelief::data
