#pragma once

#include <chrono>

#include "distbelief/base/config.h"
#include "distbelief/base/host_order.h"

// Values that [parallel] leaves open and that follow from the number of workers. Pure.
namespace distbelief {

constexpr int kInterleavedStages = 2;  // default stages per worker of an interleaved schedule

// Pipeline stages per worker.
int stages_per_worker(const ParallelConfig& parallel);
// Whether parameters live on servers. Each replica is then a world of its own and joins every step (mode
// sync) or takes its own steps, which takes_own_steps() tells.
bool has_servers(const ParallelConfig& parallel);
bool takes_own_steps(const ParallelConfig& parallel);
// Each replica trains one sub-network of the model.
bool is_decomposed(const ParallelConfig& parallel);
// Workers of one replica: the size of its mesh.
std::int64_t workers_per_replica(const ParallelConfig& parallel);
// Ranks that should share a host.
RankGroups rank_groups(const ParallelConfig& parallel);
// Deadline of a worker's wait for another worker or for its data.
std::chrono::milliseconds deadline_of(const ParallelConfig& parallel);
// Lanes of a job that sets none, before train.accumulate multiplies them.
std::int64_t default_lanes(const ParallelConfig& parallel);

}  // namespace distbelief
