#pragma once

#include <cstddef>
#include <vector>

#include "distbelief/run/prepared_job.h"

namespace distbelief::planner {

// Throws Error(kUnavailable) when parallel.state_dir is no folder of this machine or has no room.
void require_state_room(const run::PreparedJob& job);

// Bytes that a run writes to its folder at least: a checkpoint, and the model.
std::size_t saved_bytes(const run::PreparedJob& job);

// Bytes of /dev/shm that snapshots take on each host of a run.
std::size_t snapshot_bytes(const run::PreparedJob& job, std::size_t hosts);

// Bytes of /dev/shm that a host of a run needs: what its workers share, as much again for a standby, and the
// snapshots, which every host has, but none of a network that is cut over several. `job.config` is resolved
// for these workers.
std::size_t shared_memory_needed(const run::PreparedJob& job, const std::vector<int>& workers_per_host,
                                 int host = 0);

}  // namespace distbelief::planner
