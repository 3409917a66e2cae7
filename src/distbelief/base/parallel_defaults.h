#pragma once

#include <chrono>

#include "distbelief/base/config.h"
#include "distbelief/base/host_order.h"

// What [parallel] leaves open and the number of workers decides. Pure.
namespace distbelief {

constexpr int kInterleavedStages =
    2;  // of each worker, where the schedule is interleaved and nobody says more

// Stages of each worker of a pipeline.
int stages_per_worker(const ParallelConfig& parallel);
// Parameters live on servers. Each replica, a world of its own, then takes part in every step (mode sync) or
// takes steps of its own.
bool has_servers(const ParallelConfig& parallel);
bool takes_own_steps(const ParallelConfig& parallel);
// Each replica trains one sub-network of the model.
bool is_decomposed(const ParallelConfig& parallel);
// Workers of such a replica: its mesh.
std::int64_t workers_per_replica(const ParallelConfig& parallel);
// Ranks that should share a host.
RankGroups rank_groups(const ParallelConfig& parallel);
// Of a wait of a worker for another, or for its data.
std::chrono::milliseconds deadline_of(const ParallelConfig& parallel);
// Lanes of a job that names none, before train.accumulate multiplies them.
std::int64_t default_lanes(const ParallelConfig& parallel);

}  // namespace distbelief
