#include "distbelief/data/slices/indexed_slice.h"

#include <fmt/format.h>

#include <cstring>

#include "distbelief/base/error.h"

namespace distbelief::data {
namespace {

// Numbers may be unaligned in the slice, so they are copied out.
std::int64_t number_at(std::span<const std::uint8_t> bytes, std::uint64_t i) {
  std::int64_t number = 0;
  std::memcpy(&number, bytes.data() + i * sizeof number, sizeof number);
  return number;
}

Error lying_sample(const SlicePlace& place, std::uint64_t sample, const std::string& what) {
  return Error(ErrorCode::kBadInput,
               fmt::format("'{}', byte {}: sample {} of the slice has {}; fetch or pack the set again",
                           place.file, place.offset, sample, what));
}

// Code that counts classes trusts them.
void check_classes(const SliceIndex& index, const SliceEntry& entry, std::span<const std::uint8_t> raw,
                   const SlicePlace& place) {
  if (!has_class_targets(index.spec)) return;
  const std::span<const std::uint8_t> targets = raw.subspan(entry.samples * sample_bytes(index.spec).input);
  const std::uint64_t each = targets.size() / sizeof(std::int64_t) / entry.samples;
  for (std::uint64_t i = 0; i < entry.samples * each; ++i)
    if (const std::int64_t target = number_at(targets, i); !is_class(index.spec, target))
      throw lying_sample(place, i / each,
                         fmt::format("class {}, outside 0 to {}", target, index.spec.classes - 1));
}

// Models use tokens as table indices and trust the index's bound.
void check_tokens(const SliceIndex& index, const SliceEntry& entry, std::span<const std::uint8_t> raw,
                  const SlicePlace& place) {
  const std::int64_t limit = input_limit(index.spec);
  if (limit == 0) return;
  const auto each = static_cast<std::uint64_t>(element_count(index.spec.input_shape));
  const std::uint64_t step = has_trees(index.spec) ? 2 : 1;
  for (std::uint64_t i = 0; i < entry.samples * each; i += step)
    if (const std::int64_t token = number_at(raw, i); token < 0 || token >= limit)
      throw lying_sample(place, i / each, fmt::format("token {}, outside 0 to {}", token, limit - 1));
}

// Checks that children come before their parents.
void check_parents(const SliceIndex& index, const SliceEntry& entry, std::span<const std::uint8_t> raw,
                   const SlicePlace& place) {
  if (!has_trees(index.spec)) return;
  const std::int64_t nodes = index.spec.input_shape[0];
  for (std::uint64_t sample = 0; sample < entry.samples; ++sample)
    for (std::int64_t node = 0; node < nodes; ++node) {
      const std::int64_t parent =
          number_at(raw, 2 * (sample * std::uint64_t(nodes) + std::uint64_t(node)) + 1);
      if (parent != -1 && (parent <= node || parent >= nodes))
        throw lying_sample(place, sample,
                           fmt::format("{} as the parent of node {}, which is neither -1 nor {} to {}",
                                       parent, node, node + 1, nodes - 1));
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
  check_tokens(index, entry, raw, place);
  check_parents(index, entry, raw, place);
  return raw;
}

}  // namespace distbelief::data
