#pragma once

#include <cstdint>
#include <vector>

#include "distbelief/base/options.h"

// Held-out test samples for data sets whose files have no test part.
namespace distbelief::data {

// The options "held_out" (a share) and "split_seed" of every source that can hold out samples.
std::vector<OptionSpec> held_out_options();

// Whether each of `samples` is held out. Depends only on the arguments, so every worker and every run agrees.
// Both sides have at least one sample. Throws Error(kBadInput) for fewer than two samples and for a share
// outside (0, 1).
std::vector<bool> hold_out(std::uint64_t samples, double share, std::uint64_t seed);

// The same with the share and the seed from the options above.
std::vector<bool> hold_out(std::uint64_t samples, const OptionMap& options);

}  // namespace distbelief::data
