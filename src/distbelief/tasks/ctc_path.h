#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace distbelief::tasks {

// The class of a frame that says nothing.
inline constexpr std::int64_t kBlank = 0;

// What a path of classes, one for each frame, says: a class that goes on over several frames is said once,
// and a blank between two makes them two. Pure.
std::vector<std::int64_t> labels_of(std::span<const std::int64_t> path);

}  // namespace distbelief::tasks
