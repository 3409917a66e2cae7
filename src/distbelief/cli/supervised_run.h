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

// Runs a checked job: starts its processes and prints its end.
namespace distbelief::cli {

// The command line of a parameter server.
std::vector<std::string> server_command(const std::filesystem::path& run_dir, const Config& config,
                                        const cluster::FleetProcess& process);

// Renames the logs of an earlier start. In a resumed run versions and tickets start again, and so do the jobs
// of restarted servers.
void put_earlier_logs_aside(const std::filesystem::path& logs);

// How a run with parameter servers divides its hosts' slots into replicas.
cluster::ReplicaRule replica_rule(const ParallelConfig& parallel);

// The instruction set that all hosts have, including spares. Asked before there is a run folder, so that a
// host that does not answer, or has too little room in /dev/shm, leaves nothing behind.
cluster::Isa agree_with_hosts(const Config& config, const std::vector<cluster::HostSlots>& hosts,
                              const StartNeeds& needs);

// Supervises the workers until the run has ended, and keeps its page up to date. Returns the exit code.
int supervise(const Config& config, const std::vector<cluster::HostSlots>& hosts, cluster::Isa isa,
              const WorkerCommand& command);

// Under mpirun or srun, where this process is a worker. Returns its exit code. A resumed run keeps the job's
// train.init, but does not use it.
enum class Beginning { kNew, kResumed };
int train_launched(job::Job job, std::filesystem::path run_dir, Beginning beginning,
                   const Invocation& invocation);

}  // namespace distbelief::cli
