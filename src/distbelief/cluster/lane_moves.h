#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "distbelief/base/host_order.h"

// Decides whether the lanes of a run can move during training. Pure.
namespace distbelief::cluster {

struct LaneMoves {
  int lanes = 0;             // 0: a user's own program, which has none
  RankGroups groups{};       // workers that hold the network together
  bool whole_batch = false;  // L-BFGS: the lanes of a worker do not move
};

// The reason to refuse `distbelief scale --threads`; empty: accepted.
std::optional<std::string> refuse_threads(const LaneMoves& run, std::int64_t threads);
// The reason to refuse `distbelief pause --worker` and `resume --worker`; empty: accepted.
std::optional<std::string> refuse_rest(const LaneMoves& run);

}  // namespace distbelief::cluster
