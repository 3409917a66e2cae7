#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/base/parallel_defaults.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/commands/control_commands.h"
#include "distbelief/cli/commands/launch_command.h"
#include "distbelief/cli/commands/plan_command.h"
#include "distbelief/cli/finished_run.h"
#include "distbelief/cli/found_network.h"
#include "distbelief/cli/interruption.h"
#include "distbelief/cli/job_flags.h"
#include "distbelief/cli/named_job.h"
#include "distbelief/cli/run_folder.h"
#include "distbelief/cli/start_check.h"
#include "distbelief/cli/supervised_run.h"
#include "distbelief/cli/worker_places.h"
#include "distbelief/cluster/launch.h"
#include "distbelief/cluster/run_place.h"
#include "distbelief/compute/optimizer.h"
#include "distbelief/data/known_set.h"
#include "distbelief/data/registry.h"
#include "distbelief/job/job_check.h"
#include "distbelief/planner/block_costs.h"

namespace distbelief::cli {
namespace {

namespace fs = std::filesystem;

struct TrainFlags {
  JobFlags job;
  PlaceFlags places;
  int worker = -1;
  std::string run_dir;
  std::string trace;
  std::string init;
  bool init_partial = false;
  std::string progress;
  std::vector<std::string> inject;
};

// A resumed run keeps the settings that determine its bits.
void require_same_arithmetic(const Config& before, const Config& after) {
  const auto states = [](const Config& config) {
    return compute::make_optimizer(config.train.optimizer)->state_names();
  };
  const std::pair<const char*, bool> kept[] = {
      {"model", before.model == after.model},
      {"data.name", before.data.name == after.data.name},
      {"train.seed", before.train.seed == after.train.seed},
      {"train.batch_size", before.train.batch_size == after.train.batch_size},
      {"train.accumulate", before.train.accumulate == after.train.accumulate},
      {"train.optimizer", before.train.optimizer.name == after.train.optimizer.name},
      {"whether there is train.momentum", states(before) == states(after)},
      {"parallel.lanes", before.parallel.lanes == after.parallel.lanes}};
  for (const auto& [key, same] : kept)
    if (!same)
      throw Error(ErrorCode::kBadInput,
                  fmt::format("a resumed run cannot change {}: start a new one with distbelief train", key));
}

// Files are read with the preprocessing fitted at the run's start, so the options that determine it cannot
// change.
void require_same_reading(const data::KnownSet& known, const DataConfig& before, const DataConfig& after) {
  if (!known.learnt || data::find_data_set(after.name).reopen == nullptr) return;
  constexpr std::string_view kFree[] = {"cache", "test", "stride"};
  for (const auto& [key, value] : data::data_set_options(after.name, after.options))
    if (std::ranges::find(kFree, key) == std::end(kFree) &&
        value != data::data_set_options(before.name, before.options).at(key))
      throw Error(
          ErrorCode::kBadInput,
          fmt::format("a resumed run cannot change data.{}: how its files become samples was settled when "
                      "it began; start a new one with distbelief train",
                      key));
}

// A trace is written at the end, so a place that is not writable is reported now.
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

void check_faults(const std::vector<std::string>& faults, const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  const std::int64_t busy = run::most_workers(parallel);
  const std::int64_t most = config.elastic.max > 0 ? std::min(config.elastic.max, busy) : busy;
  const std::int64_t first =
      parallel.workers * (has_servers(parallel) ? workers_per_replica(parallel) : 1);  // over all replicas
  for (const std::string& fault : faults)
    run::parse_fault(fault, {.first = first, .most = std::max(first, most)});
}

// Chooses the layout of a job with parallel.mesh = "auto". Returns the measured costs; empty for other jobs.
std::optional<planner::LaneCosts> plan_if_wanted(job::Job& job,
                                                 const std::vector<cluster::HostSlots>& hosts) {
  if (job.config.parallel.mesh != "auto") return std::nullopt;
  pack_cache(job);
  std::optional<ChosenLayout> chosen = choose_layout(job, hosts);
  if (!chosen) return std::nullopt;
  job.config = std::move(chosen->config);
  job::validate(job);
  return std::move(chosen->measured);
}

// The network whose measured costs are stored for the run, so that it is cut as planned.
std::optional<run::PreparedJob> planned_network(const Config& config,
                                                const std::optional<planner::LaneCosts>& measured) {
  if (!measured || measured->blocks.empty() || config.parallel.pipeline == 1) return std::nullopt;
  return run::prepare_blueprint(config);
}

// Under mpirun or srun the launcher has placed the workers, and no other process can be started.
void refuse_under_launcher(const TrainFlags& flags, const Config& config) {
  const int started = cluster::launcher_place().size;
  if (flags.places.workers > 0 && flags.places.workers != started)
    throw Error(ErrorCode::kBadInput,
                fmt::format("--workers {} under a launcher that started {}; leave --workers out",
                            flags.places.workers, started));
  const std::pair<const char*, bool> given[] = {{"--hosts", !flags.places.hosts.empty()},
                                                {"--hostfile", !flags.places.hostfile.empty()},
                                                {"--servers-at", !flags.places.servers_at.empty()},
                                                {"--inject", !flags.inject.empty()},
                                                {"elastic.hostfile", !config.elastic.hostfile.empty()},
                                                {"elastic.discovery", !config.elastic.discovery.empty()},
                                                {"elastic.spares", !config.elastic.spares.empty()},
                                                {"elastic.standby", config.elastic.standby},
                                                {"elastic.auto", config.elastic.automatic}};
  std::string all;
  for (const auto& [flag, is_given] : given)
    if (is_given) all += (all.empty() ? "" : ", ") + std::string(flag);
  if (!all.empty())
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("under mpirun or srun leave out {}: the launcher has placed the workers, and nobody "
                    "starts others; or run the same command without the launcher",
                    all));
  if (has_servers(config.parallel))
    throw Error(
        ErrorCode::kBadInput,
        "parallel.sync = \"parameter_server\" needs servers, which nobody starts under mpirun or srun; "
        "let distbelief train start the servers and the workers");
  if (config.parallel.mesh == "auto")
    throw Error(
        ErrorCode::kBadInput,
        "parallel.mesh = \"auto\" starts workers to measure, which cannot be under mpirun or srun; let "
        "distbelief train start the workers, or give the numbers that distbelief plan prints");
}

// Makes the path absolute, because workers and a later resume run in other folders.
void take_init(const TrainFlags& flags, Config& config) {
  if (!flags.init.empty()) config.train.init = flags.init;
  if (flags.init_partial) config.train.init_partial = true;
  if (!config.train.init.empty()) config.train.init = fs::absolute(config.train.init).string();
}

int train(const TrainFlags& flags, const Invocation& invocation) {
  for (const std::string& fault : flags.inject) run::parse_fault(fault);
  job::Job job = flags.job.read();
  take_init(flags, job.config);
  if (!flags.trace.empty()) job.config.report.trace = fs::absolute(flags.trace).string();
  require_writable(job.config.report.trace);
  if (!flags.progress.empty()) job::apply_override(job, "report.progress=" + flags.progress);
  if (cluster::launcher_place().launched) {
    refuse_under_launcher(flags, job.config);
    job.config.parallel.workers = cluster::launcher_place().size;
    refuse_search_without_latencies(job.config);
    job::validate(job);
    return train_launched(std::move(job), flags.run_dir, Beginning::kNew, invocation);
  }
  const std::vector<cluster::HostSlots> hosts = place_workers(flags.places, job.config);
  if (was_interrupted()) return 130;
  job::validate(job);
  check_named(job);
  const std::optional<planner::LaneCosts> measured = plan_if_wanted(job, hosts);
  if (was_interrupted()) return 130;
  measure_if_searching(job);
  run::resolve_for_workers(job.config, int(job.config.parallel.workers));
  job::with_places(job, [&config = job.config] {
    run::require_mesh(config, int(has_servers(config.parallel) ? workers_per_replica(config.parallel)
                                                               : config.parallel.workers));
  });
  check_faults(flags.inject, job.config);
  const StartNeeds needs = check_before_start(job, hosts);
  const cluster::Isa isa = agree_with_hosts(job.config, hosts, needs);
  if (was_interrupted()) return 130;
  const StandingServers standing = standing_servers(flags.places, job.config);
  require_run_room(flags.run_dir.empty() ? "runs" : flags.run_dir, needs.saved_bytes);
  const std::optional<run::PreparedJob> planned = planned_network(job.config, measured);
  const Watch watch;  // from here on there is a run to finish
  const fs::path run_dir = begin_run_dir(flags.run_dir, job.config, needs.data);
  if (planned) planner::keep_costs(run_dir / "blocks.json", *planned, *measured);
  return supervise(job.config, hosts, isa,
                   {.run_dir = run_dir,
                    .resume = false,
                    .snapshots = {},
                    .inject = flags.inject,
                    .control = {},
                    .served_job = standing.job,
                    .standing = flags.places.servers_at,
                    .servers_at = standing.targets});
}

// A running run keeps its settings; the changeable ones have their own commands.
void refuse_changes_to_living(const TrainFlags& flags) {
  const bool changes = flags.places.workers > 0 || !flags.places.hosts.empty() ||
                       !flags.places.hostfile.empty() || !flags.job.sets.empty();
  if (!changes || !is_living(flags.run_dir)) return;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("{0} is being trained: its settings stay. Another number of workers: distbelief scale "
                  "{0} N; anything else: distbelief stop {0}, then resume it with the change",
                  flags.run_dir));
}

// Refuses to skip state that could not be saved as a checkpoint.
void require_kept_state_read(const fs::path& run_dir, const Config& config) {
  const fs::path file = run_dir / cluster::kKeptSnapshots;
  const bool has_launcher = cluster::launcher_place().launched;
  if (!fs::exists(file) || (!has_launcher && config.checkpoint.snapshots)) return;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("{} has the run's newest state, which is not read {}; go on with: distbelief resume "
                  "{}, or remove that file to go on from the last checkpoint",
                  file.string(), has_launcher ? "under mpirun and srun" : "with checkpoint.snapshots = false",
                  run_dir.string()));
}

int resume(const TrainFlags& flags, const Invocation& invocation) {
  const fs::path run_dir = flags.run_dir;
  require_run_dir(run_dir);
  refuse_changes_to_living(flags);
  if (resume_living(run_dir, flags.worker)) return 0;
  if (flags.worker >= 0)
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} is not being trained now: no worker of it is paused; go "
                            "on with: distbelief resume {}",
                            run_dir.string(), run_dir.string()));
  if (is_launched(run_dir))
    return resume_launched(
        {.run_dir = flags.run_dir, .sets = flags.job.sets, .workers = flags.places.workers});
  job::Job job = job::read_job_file(run_dir / "job.toml");
  use_network_file(run_dir, job.config);
  // A resumed run has its own weights.
  const std::string init = std::exchange(job.config.train.init, "");
  const bool init_partial = std::exchange(job.config.train.init_partial, false);
  job.config.report.trace.clear();  // a trace covers one start; another start needs another file
  const Config before = job.config;
  for (const std::string& assignment : flags.job.sets) job::apply_override(job, assignment);
  if (!flags.progress.empty()) job::apply_override(job, "report.progress=" + flags.progress);
  require_same_arithmetic(before, job.config);
  if (std::string& trace = job.config.report.trace; !trace.empty()) trace = fs::absolute(trace).string();
  require_writable(job.config.report.trace);
  const std::optional<data::KnownSet> known = data::read_known_set(run_dir);
  if (known) require_same_reading(*known, before.data, job.config.data);
  require_kept_state_read(run_dir, job.config);
  if (cluster::launcher_place().launched) {
    refuse_under_launcher(flags, job.config);
    job.config.parallel.workers = cluster::launcher_place().size;
    job::validate(job);
    job.config.train.init = init;
    job.config.train.init_partial = init_partial;
    return train_launched(std::move(job), run_dir, Beginning::kResumed, invocation);
  }
  const std::vector<cluster::HostSlots> hosts = place_workers(flags.places, job.config);
  if (was_interrupted()) return 130;
  job::validate(job);
  check_named(job);
  const std::optional<planner::LaneCosts> measured = plan_if_wanted(job, hosts);
  if (was_interrupted()) return 130;
  run::resolve_for_workers(job.config, int(job.config.parallel.workers));
  const StartNeeds needs = check_before_start(job, hosts, known ? &*known : nullptr);
  if (is_finished(run_dir, job.config, needs, Saved::kSnapshotsToo)) return 0;
  const cluster::Isa isa = agree_with_hosts(job.config, hosts, needs);
  if (was_interrupted()) return 130;
  const StandingServers standing = standing_servers(flags.places, job.config);
  const std::optional<run::PreparedJob> planned = planned_network(job.config, measured);
  const Watch watch;
  Config kept = job.config;
  kept.train.init = init;
  kept.train.init_partial = init_partial;
  const FormerFiles former(run_dir);
  write_job(run_dir, kept);
  note_data(run_dir, known ? &*known : nullptr, needs.data);
  if (planned) planner::keep_costs(run_dir / "blocks.json", *planned, *measured);
  const int code = supervise(job.config, hosts, isa,
                             {.run_dir = run_dir,
                              .resume = true,
                              .snapshots = {},
                              .inject = flags.inject,
                              .control = {},
                              .served_job = standing.job,
                              .first_step = has_servers(job.config.parallel) ? saved_step(run_dir) : 0,
                              .standing = flags.places.servers_at,
                              .servers_at = standing.targets});
  if (code == exit_code(ErrorCode::kBadInput)) former.bring_back();
  return code;
}

}  // namespace

void add_train(CLI::App& app, const Invocation& invocation, Run& run) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* command = app.add_subcommand("train", "train a network on many processes")->group(kStartGroup);
  flags->job.add_to(*command, false);
  flags->places.add_to(*command);
  command->add_option("--run-dir", flags->run_dir,
                      "folder for all files of the run (default: runs/MODEL-DATA-TIME)");
  command->add_option("--init", flags->init, "start from the weights of a safetensors file");
  command->add_flag("--init-partial", flags->init_partial,
                    "with --init: load the tensors that fit and draw the others from the seed");
  command->add_option("--trace", flags->trace, "write a trace file for chrome://tracing or ui.perfetto.dev");
  command->add_option("--progress", flags->progress,
                      "style of the progress display: auto, bar, plain or none");
  command
      ->add_option("--inject", flags->inject,
                   "inject a fault: kill:rank=1,step=37 (docs/reference/faults.md; repeatable)")
      ->take_all()
      ->allow_extra_args(false);
  command->footer(
      "Examples:\n"
      "  distbelief train\n"
      "  distbelief train examples/jobs/mnist_mlp.toml --data-dir mnist --workers 2\n"
      "  distbelief train job.toml --init resnet18.safetensors --init-partial\n"
      "  distbelief train job.toml --hosts a:2,b:2 --set train.lr=0.1 --set train.epochs=3\n"
      "  mpirun -n 4 distbelief train job.toml --run-dir runs/four\n"
      "Exit codes: 0 done, 1 failed, 2 bad usage or job file, 130 interrupted.\n"
      "Under mpirun and srun the exit code is the launcher's (Open MPI: 1 after Ctrl-C).");
  command->callback([=, &invocation, &run] { run = [=, &invocation] { return train(*flags, invocation); }; });
}

void add_resume(CLI::App& app, const Invocation& invocation, Run& run) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* command = app.add_subcommand("resume", "continue a run from its newest state, to the same bits")
                          ->group(kStartGroup);
  command->add_option("run", flags->run_dir, "run folder")->required();
  command
      ->add_option("--set", flags->job.sets,
                   "override a key of the job file: --set train.epochs=10 (repeatable)")
      ->take_all()
      ->allow_extra_args(false);
  flags->places.add_to(*command);
  command->add_option("--progress", flags->progress,
                      "style of the progress display: auto, bar, plain or none");
  command->add_option("--worker", flags->worker, "continue this paused worker of a run that trains")
      ->check(CLI::Range(0, 65535));
  command->footer("Example:\n  distbelief resume runs/my-run --workers 4");
  command->callback(
      [=, &invocation, &run] { run = [=, &invocation] { return resume(*flags, invocation); }; });
}

}  // namespace distbelief::cli
