#pragma once

#include <filesystem>
#include <vector>

#include "distbelief/cli/commands.h"
#include "distbelief/cli/commands/worker_command.h"
#include "distbelief/cli/start_check.h"
#include "distbelief/cluster/fleet.h"
#include "distbelief/cluster/hosts.h"
#include "distbelief/cluster/isa.h"
#include "distbelief/job/job_file.h"

// A run under way: what is started once a job is known to be sound, and what is shown at its end.
namespace distbelief::cli {

// The command line of a parameter server.
std::vector<std::string> server_command(const std::filesystem::path& run_dir, const Config& config,
                                        const cluster::FleetProcess& process);

// Versions and tickets of a run that is resumed begin anew, and so do jobs of servers that are started again.
void put_earlier_logs_aside(const std::filesystem::path& logs);

// How a run with parameter servers deals its hosts' slots to replicas.
cluster::ReplicaRule replica_rule(const ParallelConfig& parallel);

// The instruction set that all hosts have, spares too. Asked before there is a run folder: a host that does
// not answer, or has too little room in /dev/shm, leaves nothing behind.
cluster::Isa agree_with_hosts(const Config& config, const std::vector<cluster::HostSlots>& hosts,
                              const StartNeeds& needs);

// Supervises the workers until the run has ended, and keeps its page. Gives the exit code.
int supervise(const Config& config, const std::vector<cluster::HostSlots>& hosts, cluster::Isa isa,
              const WorkerCommand& command);

// Under mpirun or srun: this process is a worker. Gives its exit code. A run that is resumed keeps the job's
// train.init, and goes on without it.
enum class Beginning { kNew, kResumed };
int train_launched(job::Job job, std::filesystem::path run_dir, Beginning beginning,
                   const Invocation& invocation);

}  // namespace distbelief::cli
