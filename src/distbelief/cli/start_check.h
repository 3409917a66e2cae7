#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "distbelief/cluster/hosts.h"
#include "distbelief/comm/host/segment.h"
#include "distbelief/comm/world.h"
#include "distbelief/data/known_set.h"
#include "distbelief/job/job_file.h"
#include "distbelief/run/prepared_job.h"

// Finds every foreseeable failure before there is a run folder, so that after a correction the same command
// works.
namespace distbelief::cli {

// The work and the resources of a valid job.
struct StartNeeds {
  std::int64_t total_steps = 0;
  std::int64_t steps_per_epoch = 0;
  std::size_t saved_bytes = 0;  // least size of the run folder
  // Needs in /dev/shm per host in order, then per spare; of this machine when no hosts are named.
  std::vector<comm::SharedMemoryNeed> rooms{};
  data::KnownSet data{};  // the current data manifest
};

// The space in /dev/shm that a job needs, in the order of StartNeeds.
std::vector<comm::SharedMemoryNeed> rooms_of(const run::PreparedJob& job,
                                             const std::vector<cluster::HostSlots>& hosts);

// Prints advice on standard error about settings that work but are rarely intended.
void advise(const Config& config, std::int64_t total_steps);

// Called by the supervisor before a process starts. Opens the data. Checks only this machine, and not the
// room in /dev/shm of other hosts. `known`: the manifest of a resumed run.
StartNeeds check_before_start(const job::Job& job, const std::vector<cluster::HostSlots>& hosts,
                              const data::KnownSet* known = nullptr);

// Called by each worker under mpirun or srun, for its own machine. Opens the data; collective. Returns the
// job's steps and data.
StartNeeds check_launched(const job::Job& job, World& world, const data::KnownSet* known = nullptr);

// Calls `act` on all workers; if it throws on one, none continues. Prints each error once. Collective;
// returns the exit code of the first error, or 0.
int act_together(World& world, const std::function<void()>& act);

}  // namespace distbelief::cli
