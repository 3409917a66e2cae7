#pragma once

#include <cstdint>
#include <span>

namespace distbelief::tasks {

// The action that most voters want; of several that equally many want, the one that all voters together hold
// the likeliest, then the first. `votes` has an action for each voter, `chances` a sum over voters for each
// action. Pure.
std::int64_t elect(std::span<const std::int64_t> votes, std::span<const double> chances);

}  // namespace distbelief::tasks
