#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "distbelief/base/host_order.h"

// Whether the lanes of a run can move while it trains. Pure.
namespace distbelief::cluster {

struct LaneMoves {
  int lanes = 0;             // 0: a program of a user's, which has none
  RankGroups groups{};       // workers that hold the network together
  bool whole_batch = false;  // L-BFGS: the lanes of a worker keep their place
};

// Why `distbelief scale --threads` is refused; nothing: it is not.
std::optional<std::string> refuse_threads(const LaneMoves& run, std::int64_t threads);
// Why `distbelief pause --worker` and `resume --worker` are refused; nothing: they are not.
std::optional<std::string> refuse_rest(const LaneMoves& run);

}  // namespace distbelief::cluster
