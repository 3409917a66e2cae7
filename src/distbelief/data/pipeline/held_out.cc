#include "distbelief/data/pipeline/held_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "distbelief/base/error.h"
#include "distbelief/base/random.h"
#include "distbelief/data/pipeline/sampling.h"

namespace distbelief::data {
namespace {

constexpr std::uint64_t kHeldOutStream = 0x68656c64;  // separates it from the order of the epochs

}  // namespace

std::vector<OptionSpec> held_out_options() {
  return {{"held_out", 0.1, "share of the samples kept for testing, where the files have no part for it"},
          {"split_seed", std::int64_t{1}, "which samples these are"}};
}

std::vector<bool> hold_out(std::uint64_t samples, double share, std::uint64_t seed) {
  if (!(share > 0.0 && share < 1.0))
    throw Error(ErrorCode::kBadInput,
                fmt::format("option 'held_out' must lie between 0 and 1, it is {}; 0.1 is usual", share),
                {.key = "data.held_out"});
  if (samples < 2)
    throw Error(ErrorCode::kBadInput,
                fmt::format("at least 2 samples are wanted, to train on and to test on, found {}", samples));
  const auto wanted = static_cast<std::uint64_t>(std::llround(share * static_cast<double>(samples)));
  const std::uint64_t count = std::clamp<std::uint64_t>(wanted, 1, samples - 1);
  const Permutation order(samples, derive_seed({kHeldOutStream, seed}), 0);
  std::vector<bool> held(samples, false);
  for (std::uint64_t i = 0; i < count; ++i) held[order(i)] = true;
  return held;
}

std::vector<bool> hold_out(std::uint64_t samples, const OptionMap& options) {
  return hold_out(samples, option<double>(options, "held_out"),
                  static_cast<std::uint64_t>(option<std::int64_t>(options, "split_seed")));
}

}  // namespace distbelief::data
