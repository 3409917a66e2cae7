#pragma once

#include <cstdint>
#include <vector>

#include "distbelief/base/options.h"

// Samples that are kept for testing when the files themselves have no such part.
namespace distbelief::data {

// The options "held_out" (a share) and "split_seed" of every source that can set samples aside.
std::vector<OptionSpec> held_out_options();

// Whether each of `samples` is kept for testing: fixed by the arguments alone, so every worker and every run
// comes to the same answer. At least one sample is on either side. Throws Error(kBadInput) for fewer than two
// samples or a share outside (0, 1).
std::vector<bool> hold_out(std::uint64_t samples, double share, std::uint64_t seed);

// By the options above.
std::vector<bool> hold_out(std::uint64_t samples, const OptionMap& options);

}  // namespace distbelief::data
