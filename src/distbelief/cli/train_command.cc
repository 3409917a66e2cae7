#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "distbelief/base/error.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/control_commands.h"
#include "distbelief/cli/job_check.h"
#include "distbelief/cli/job_flags.h"
#include "distbelief/cli/run_folder.h"
#include "distbelief/cli/worker_command.h"
#include "distbelief/cluster/supervisor.h"
#include "distbelief/comm/host/communicator.h"
#include "distbelief/train/memory_need.h"

namespace distbelief::cli {
namespace {

namespace fs = std::filesystem;

struct TrainFlags {
  JobFlags job;
  int workers = 0;
  std::string hosts;
  std::string run_dir;
  std::string trace;
  std::string progress;
  std::vector<std::string> inject;
};

// Everything that can be known to fail is found before a process starts. Gives the job's steps.
std::int64_t check_before_start(const Job& job, const std::vector<int>& workers_per_host) {
  check_named(job);
  cluster::require_short_place();
  const train::PreparedJob prepared = train::prepare_job(job.config);
  // This machine stands for all; each looks again when it starts.
  comm::require_shared_memory(train::shared_memory_needed(prepared, workers_per_host),
                              fmt::format("{} with {} workers", job.config.model.name, workers_per_host[0]));
  return prepared.total_steps();
}

// How many workers a run may have: at most one for every lane.
int most_workers(const Config& config) {
  const auto lanes = int(config.parallel.lanes / config.parallel.threads);
  return config.elastic.max > 0 ? std::min(int(config.elastic.max), lanes) : lanes;
}

// Between hosts nobody listens yet: the workers start at once, and a loss ends the run.
int run_on_hosts(const Config& config, cluster::LaunchOptions launch, const WorkerCommand& command,
                 const Invocation& invocation) {
  launch.command = worker_command(config, command);
  return cluster::run_workers(launch, *invocation.interrupted);
}

int run_here(const Config& config, const cluster::LaunchOptions& launch, WorkerCommand command,
             const Invocation& invocation) {
  const cluster::RunPlace place = cluster::place_of(command.run_dir);
  command.control = "unix:" + place.socket.string();
  if (config.checkpoint.snapshots) command.snapshots = place.snapshots;
  return cluster::supervise({.launch = launch,
                             .worker_command =
                                 [&](int workers, int cohort) {
                                   Config sized = config;
                                   sized.parallel.workers = workers;
                                   WorkerCommand one = command;
                                   one.cohort = cohort;
                                   return worker_command(sized, one);
                                 },
                             .run_dir = command.run_dir,
                             .place = place,
                             .policy = {.restarts = int(config.elastic.restarts)},
                             .min = int(config.elastic.min),
                             .max = most_workers(config),
                             .standby = config.elastic.standby,
                             .snapshots = config.checkpoint.snapshots,
                             .resume = command.resume},
                            *invocation.interrupted);
}

int supervise(const Config& config, const std::vector<cluster::HostSlots>& hosts,
              const WorkerCommand& command, const Invocation& invocation) {
  cluster::LaunchOptions launch;
  launch.workers = int(config.parallel.workers);
  launch.hosts = hosts;
  launch.isa = cluster::weakest_isa(hosts, own_path(), *invocation.interrupted);
  if (invocation.interrupted->load()) return 130;
  const int code = hosts.empty() ? run_here(config, launch, command, invocation)
                                 : run_on_hosts(config, launch, command, invocation);
  std::fflush(stdout);
  const std::string run_dir = command.run_dir.string();
  if (code == 0) show_end(command.run_dir);
  if (code == 130)
    fmt::print(stderr, "interrupted; what was measured is in {0}; go on with: distbelief resume {0}\n",
               run_dir);
  else if (code != 0)
    fmt::print(stderr, "distbelief: the run failed; logs of the workers: {}/logs\n", run_dir);
  return code == 0 || code == 2 || code == 130 ? code : 1;
}

// Under mpirun or srun: this process is a worker.
int train_launched(Job job, const fs::path& run_dir, bool resume, const Invocation& invocation) {
  pin_or_restart(invocation);
  const cluster::LauncherPlace place = cluster::launcher_place();
  train::resolve_for_workers(job.config, place.size);
  if (!resume) {
    check_named(job);
    if (place.rank == 0) {
      make_run_dir(run_dir.string(), job.config);
      write_job(run_dir, job.config);
    }
  }
  return train::run_worker(launched_options(job.config, run_dir, resume, invocation));
}

// Where the workers go, and how many there are: --hosts, --workers, or what the job says.
std::vector<cluster::HostSlots> place_workers(const TrainFlags& flags, Config& config) {
  if (flags.workers > 0) config.parallel.workers = flags.workers;
  if (flags.hosts.empty()) return {};
  std::vector<cluster::HostSlots> hosts = cluster::parse_hosts(flags.hosts);
  config.parallel.workers = std::accumulate(hosts.begin(), hosts.end(), 0,
                                            [](int sum, const auto& host) { return sum + host.slots; });
  if (flags.workers > 0 && flags.workers != config.parallel.workers)
    throw Error(ErrorCode::kBadInput, fmt::format("--workers {} and --hosts {} disagree; give one of them",
                                                  flags.workers, flags.hosts));
  return hosts;
}

std::vector<int> workers_per_host(const Config& config, const std::vector<cluster::HostSlots>& hosts) {
  if (hosts.empty()) return {int(config.parallel.workers)};
  std::vector<int> workers;
  for (const cluster::HostSlots& host : hosts) workers.push_back(host.slots);
  return workers;
}

// A run that goes on keeps what its bits are made of.
void require_same_arithmetic(const Config& before, const Config& after) {
  const std::pair<const char*, bool> kept[] = {
      {"model", before.model == after.model},
      {"data.name", before.data.name == after.data.name},
      {"train.seed", before.train.seed == after.train.seed},
      {"train.batch_size", before.train.batch_size == after.train.batch_size},
      {"train.accumulate", before.train.accumulate == after.train.accumulate},
      {"train.optimizer", before.train.optimizer.name == after.train.optimizer.name},
      {"parallel.lanes", before.parallel.lanes == after.parallel.lanes}};
  for (const auto& [key, same] : kept)
    if (!same)
      throw Error(ErrorCode::kBadInput,
                  fmt::format("a resumed run cannot change {}: start a new one with distbelief train", key));
}

// A trace is written at the end: a place that takes none is found out now.
void require_writable(const fs::path& trace) {
  if (trace.empty()) return;
  const bool was_there = fs::exists(trace);
  const bool writable = std::ofstream(trace, std::ios::app).good();
  if (!was_there && writable) fs::remove(trace);
  if (!writable)
    throw Error(ErrorCode::kBadInput,
                fmt::format("cannot write the trace {}: does its folder exist, and may you write there?",
                            trace.string()));
}

int train(const TrainFlags& flags, const Invocation& invocation) {
  for (const std::string& fault : flags.inject) train::parse_fault(fault);
  Job job = flags.job.read();
  const std::vector<cluster::HostSlots> hosts = place_workers(flags, job.config);
  if (!flags.trace.empty()) job.config.report.trace = fs::absolute(flags.trace).string();
  require_writable(job.config.report.trace);
  if (!flags.progress.empty()) apply_override(job, "report.progress=" + flags.progress);
  if (cluster::launcher_place().launched) {
    job.config.parallel.workers = cluster::launcher_place().size;
    validate(job);
    if (flags.run_dir.empty())
      throw Error(ErrorCode::kBadInput,
                  "under mpirun or srun give --run-dir: every process must know the same one");
    return train_launched(std::move(job), flags.run_dir, false, invocation);
  }
  validate(job);
  train::resolve_for_workers(job.config, int(job.config.parallel.workers));
  check_before_start(job, workers_per_host(job.config, hosts));
  const fs::path run_dir = make_run_dir(flags.run_dir, job.config);
  write_job(run_dir, job.config);
  return supervise(
      job.config, hosts,
      {.run_dir = run_dir, .resume = false, .snapshots = {}, .inject = flags.inject, .control = {}},
      invocation);
}

int resume(const TrainFlags& flags, const Invocation& invocation) {
  const fs::path run_dir = flags.run_dir;
  require_run_dir(run_dir);
  if (resume_living(run_dir)) return 0;
  Job job = read_job_file(run_dir / "job.toml");
  const Config before = job.config;
  for (const std::string& assignment : flags.job.sets) apply_override(job, assignment);
  require_same_arithmetic(before, job.config);
  const std::vector<cluster::HostSlots> hosts = place_workers(flags, job.config);
  if (cluster::launcher_place().launched) {
    job.config.parallel.workers = cluster::launcher_place().size;
    validate(job);
    return train_launched(std::move(job), run_dir, true, invocation);
  }
  validate(job);
  train::resolve_for_workers(job.config, int(job.config.parallel.workers));
  const std::int64_t total_steps = check_before_start(job, workers_per_host(job.config, hosts));
  if (is_finished(run_dir, job.config, total_steps)) return 0;
  write_job(run_dir, job.config);
  return supervise(
      job.config, hosts,
      {.run_dir = run_dir, .resume = true, .snapshots = {}, .inject = flags.inject, .control = {}},
      invocation);
}

void add_places(CLI::App& command, TrainFlags& flags) {
  command.add_option("--workers", flags.workers, "how many processes")->check(CLI::Range(1, 4096));
  command.add_option("--hosts", flags.hosts, "on which machines, with how many each: a:2,b:2");
}

}  // namespace

void add_train(CLI::App& app, const Invocation& invocation, Run& run) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* command = app.add_subcommand("train", "train a network on many processes");
  flags->job.add_to(*command, false);
  add_places(*command, *flags);
  command->add_option("--run-dir", flags->run_dir,
                      "folder for everything the run writes (default: runs/MODEL-DATA-TIME)");
  command->add_option("--trace", flags->trace, "write a trace for chrome://tracing or ui.perfetto.dev");
  command->add_option("--progress", flags->progress, "auto, bar, plain or none");
  command
      ->add_option("--inject", flags->inject,
                   "order a fault, to see what happens: kill:rank=1,step=37 (docs/fault_tolerance.md)")
      ->take_all()
      ->allow_extra_args(false);
  command->footer(
      "Examples:\n"
      "  distbelief train\n"
      "  distbelief train examples/jobs/mnist_mlp.toml --data-dir mnist --workers 2\n"
      "  distbelief train job.toml --hosts a:2,b:2 --set train.lr=0.1 --set train.epochs=3\n"
      "  mpirun -n 4 distbelief train job.toml --run-dir runs/four\n"
      "Exit codes: 0 done, 1 failed, 2 bad usage or job file, 130 interrupted.");
  command->callback([=, &invocation, &run] { run = [=, &invocation] { return train(*flags, invocation); }; });
}

void add_resume(CLI::App& app, const Invocation& invocation, Run& run) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* command =
      app.add_subcommand("resume", "go on with a run from its last checkpoint, to the same bits");
  command->add_option("run", flags->run_dir, "run folder")->required();
  command->add_option("--set", flags->job.sets, "change a key, e.g. train.epochs=10")
      ->take_all()
      ->allow_extra_args(false);
  add_places(*command, *flags);
  command->footer("Example:\n  distbelief resume runs/my-run --workers 4");
  command->callback(
      [=, &invocation, &run] { run = [=, &invocation] { return resume(*flags, invocation); }; });
}

}  // namespace distbelief::cli
