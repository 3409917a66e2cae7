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

// Everything that can be known to fail is found before there is a run folder: what is corrected is then
// started with the same command.
namespace distbelief::cli {

// What a sound job has to do and to hold.
struct StartNeeds {
  std::int64_t total_steps = 0;
  std::int64_t steps_per_epoch = 0;
  std::size_t saved_bytes = 0;  // that the run folder takes at least
  // In /dev/shm of each host, in their order, then of each spare; of this machine when none is named.
  std::vector<comm::SharedMemoryNeed> rooms{};
  data::KnownSet data{};  // as it is now
};

// What a job takes in /dev/shm, as StartNeeds says it.
std::vector<comm::SharedMemoryNeed> rooms_of(const run::PreparedJob& job,
                                             const std::vector<cluster::HostSlots>& hosts);

// Says on standard error what works but is seldom meant.
void advise(const Config& config, std::int64_t total_steps);

// By the supervisor, before a process starts. Opens the data. Other hosts are not asked here: this machine
// stands for all but for the room in /dev/shm. `known`: of a run that goes on.
StartNeeds check_before_start(const job::Job& job, const std::vector<cluster::HostSlots>& hosts,
                              const data::KnownSet* known = nullptr);

// By each worker that mpirun or srun has started, for its own machine. Opens the data; collective.
// Gives the job's steps and data.
StartNeeds check_launched(const job::Job& job, World& world, const data::KnownSet* known = nullptr);

// What workers do together or not at all: `act` on each, and when one throws, none goes on. Each complaint is
// shown once. Collective; gives the exit code of the first that complains, 0 when none does.
int act_together(World& world, const std::function<void()>& act);

}  // namespace distbelief::cli
