#pragma once

#include <cstddef>
#include <vector>

#include "distbelief/run/prepared_job.h"

namespace distbelief::planner {

// Throws Error(kUnavailable) when parallel.state_dir is no folder of this machine or has no room.
void require_state_room(const run::PreparedJob& job);

// The least number of bytes that a run writes to its folder: a checkpoint and the model.
std::size_t saved_bytes(const run::PreparedJob& job);

// Bytes of /dev/shm for snapshots on each host of a run.
std::size_t snapshot_bytes(const run::PreparedJob& job);

// Bytes of /dev/shm that a host of a run needs: the workers' shared memory, the same again for a standby, and
// the snapshots, which every host has. `job.config` is resolved for these workers.
std::size_t shared_memory_needed(const run::PreparedJob& job, const std::vector<int>& workers_per_host,
                                 int host = 0);

}  // namespace distbelief::planner
