#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "distbelief/data/slices/index.h"
#include "distbelief/data/slices/slice.h"

namespace distbelief::data {

// The raw bytes of the slice that `entry` of the index tells of. Throws Error(kBadInput) with file and offset
// when it is damaged, another one, or has a target that is no class, a token that the index has not, or a
// tree whose parents are no later nodes: models look these up without asking.
std::vector<std::uint8_t> decode_indexed(const SliceIndex& index, const SliceEntry& entry,
                                         std::span<const std::uint8_t> bytes, const SlicePlace& place);

}  // namespace distbelief::data
