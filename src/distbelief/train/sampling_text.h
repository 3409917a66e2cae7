#pragma once

#include <cstdint>
#include <vector>

#include "distbelief/model/network.h"

namespace distbelief::train {

struct SampleOptions {
  std::int64_t context = 0;  // most tokens that the network sees at a time
  std::int64_t count = 200;  // tokens to add
  double temperature = 1.0;  // 0: always the likeliest token
  std::int64_t top_k = 0;    // of the likeliest only; 0: of all
  std::uint64_t seed = 1;
};

// Continues `prompt`, which has at least one token, with what a language model says. The same for the same
// options. Leaves the network evaluating.
std::vector<std::int64_t> continue_tokens(model::Network& network, std::vector<std::int64_t> prompt,
                                          const SampleOptions& options);

}  // namespace distbelief::train
