#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace distbelief::tasks {

// The class of a frame without a label.
inline constexpr std::int64_t kBlank = 0;

// Converts a path of classes (one per frame) to labels: a class repeated over consecutive frames counts once,
// unless a blank separates the repeats. Pure.
std::vector<std::int64_t> labels_of(std::span<const std::int64_t> path);

}  // namespace distbelief::tasks
