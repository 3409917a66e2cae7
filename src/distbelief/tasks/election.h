#pragma once

#include <cstdint>
#include <span>

namespace distbelief::tasks {

// Returns the action with the most votes. Ties go to the action with the largest total probability over all
// voters, then to the first. `votes` has one action per voter, `chances` one sum over voters per action.
// Pure.
std::int64_t elect(std::span<const std::int64_t> votes, std::span<const double> chances);

}  // namespace distbelief::tasks
