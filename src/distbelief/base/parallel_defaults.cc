#include "distbelief/base/parallel_defaults.h"

#include <algorithm>

namespace distbelief {
namespace {

constexpr std::int64_t kLanesPerStage = 4;  // a pipeline of p stages then idles in p - 1 of 5 p - 1 turns

}  // namespace

int stages_per_worker(const ParallelConfig& parallel) {
  if (parallel.chunks > 0) return int(parallel.chunks);
  return parallel.schedule == "interleaved" ? kInterleavedStages : 1;
}

bool has_servers(const ParallelConfig& parallel) { return parallel.sync == "parameter_server"; }

bool takes_own_steps(const ParallelConfig& parallel) {
  return has_servers(parallel) && parallel.mode != "sync";
}

bool is_decomposed(const ParallelConfig& parallel) {
  return has_servers(parallel) && parallel.mode == "decomposed";
}

std::int64_t workers_per_replica(const ParallelConfig& parallel) {
  return std::max<std::int64_t>(1, parallel.data) * parallel.pipeline * parallel.tensor;
}

RankGroups rank_groups(const ParallelConfig& parallel) {
  return {.tensor = int(parallel.tensor), .pipeline = int(parallel.pipeline)};
}

std::chrono::milliseconds deadline_of(const ParallelConfig& parallel) {
  return std::chrono::milliseconds(std::int64_t(1e3 * parallel.deadline_seconds));
}

std::int64_t default_lanes(const ParallelConfig& parallel) {
  const std::int64_t worlds = takes_own_steps(parallel) ? 1 : parallel.workers;
  const std::int64_t sharing = has_servers(parallel) ? worlds * workers_per_replica(parallel) : worlds;
  const std::int64_t groups = std::max<std::int64_t>(1, sharing / parallel.tensor);
  return groups * (parallel.pipeline > 1 ? kLanesPerStage : parallel.threads);
}

}  // namespace distbelief
