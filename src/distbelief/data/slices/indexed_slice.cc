#include "distbelief/data/slices/indexed_slice.h"

#include <fmt/format.h>

#include <cstring>

#include "distbelief/base/error.h"

namespace distbelief::data {
namespace {

// Targets lie anywhere in the slice, so they are copied out.
void check_classes(const SliceIndex& index, const SliceEntry& entry, std::span<const std::uint8_t> raw,
                   const SlicePlace& place) {
  if (!has_class_targets(index.spec)) return;
  const std::span<const std::uint8_t> targets = raw.subspan(entry.samples * sample_bytes(index.spec).input);
  const std::uint64_t each = targets.size() / sizeof(std::int64_t) / entry.samples;
  for (std::uint64_t i = 0; i < entry.samples * each; ++i) {
    std::int64_t target = 0;
    std::memcpy(&target, targets.data() + i * sizeof target, sizeof target);
    if (is_class(index.spec, target)) continue;
    throw Error(ErrorCode::kBadInput,
                fmt::format("'{}', byte {}: sample {} of the slice has class {}, outside 0 to {}; fetch or "
                            "pack the set again",
                            place.file, place.offset, i / each, target, index.spec.classes - 1));
  }
}

}  // namespace

std::vector<std::uint8_t> decode_indexed(const SliceIndex& index, const SliceEntry& entry,
                                         std::span<const std::uint8_t> bytes, const SlicePlace& place) {
  std::vector<std::uint8_t> raw = decode_slice(bytes, sample_bytes(index.spec).sum(), entry.raw_bytes, place);
  if (raw.size() != entry.raw_bytes || parse_slice_header(bytes, place).xxh3 != entry.xxh3)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("'{}', byte {}: this slice is not the one that the index tells of; fetch or pack the set "
                    "again",
                    place.file, place.offset));
  check_classes(index, entry, raw, place);
  return raw;
}

}  // namespace distbelief::data
