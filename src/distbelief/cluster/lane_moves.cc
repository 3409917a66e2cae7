#include "distbelief/cluster/lane_moves.h"

#include <fmt/format.h>

namespace distbelief::cluster {
namespace {

// The reason why lanes cannot move; empty: they can.
std::optional<std::string> why_fixed(const LaneMoves& run) {
  const int holders = run.groups.pipeline * run.groups.tensor;
  if (holders > 1)
    return fmt::format(
        "{} workers hold the network of this run together (parallel.pipeline {} x "
        "parallel.tensor {}) and carry the same lanes",
        holders, run.groups.pipeline, run.groups.tensor);
  if (run.whole_batch) return "with train.optimizer = \"lbfgs\" lanes stay where they are";
  return std::nullopt;
}

constexpr const char* kNoLanes =
    "a program of your own has no lanes: its workers are scaled and paused together";

}  // namespace

std::optional<std::string> refuse_threads(const LaneMoves& run, std::int64_t threads) {
  if (run.lanes == 0) return kNoLanes;
  if (threads == 1) return std::nullopt;
  if (const auto fixed = why_fixed(run)) return *fixed + ", so each worker has one thread";
  return std::nullopt;
}

std::optional<std::string> refuse_rest(const LaneMoves& run) {
  if (run.lanes == 0) return kNoLanes;
  if (const auto fixed = why_fixed(run))
    return *fixed + ", so none pauses alone; distbelief pause without --worker lets the whole run wait";
  return std::nullopt;
}

}  // namespace distbelief::cluster
