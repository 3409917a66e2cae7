#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "distbelief/data/slices/index.h"
#include "distbelief/data/slices/slice.h"

namespace distbelief::data {

// Decodes the slice that `entry` of the index describes. Throws Error(kBadInput) with file and offset when it
// is damaged or not that slice, and for a target that is no class, a token beyond the index's bound, or a
// tree whose parents are not later nodes: models use these numbers unchecked.
std::vector<std::uint8_t> decode_indexed(const SliceIndex& index, const SliceEntry& entry,
                                         std::span<const std::uint8_t> bytes, const SlicePlace& place);

}  // namespace distbelief::data
