#include "distbelief/cli/commands/launch_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/cli/interruption.h"
#include "distbelief/cli/launch_file.h"
#include "distbelief/cli/new_run_folder.h"
#include "distbelief/cli/run_folder.h"
#include "distbelief/cluster/enrolment.h"
#include "distbelief/cluster/supervisor.h"
#include "distbelief/job/job_check.h"
#include "distbelief/job/job_file.h"
#include "distbelief/report/summary.h"

// Runs a user's own program under the supervisor. The program tracks its training with distbelief::elastic.
namespace distbelief::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kDefaultWorkers = 2;
constexpr int kMostWorkers = 4096;
constexpr const char* kKeys[] = {"elastic.min",     "elastic.max",          "elastic.restarts",
                                 "elastic.standby", "checkpoint.snapshots", "parallel.deadline_seconds"};

// The keys of a job file that apply without a job.
Config settings(const LaunchFlags& flags) {
  job::Job job;
  job.config.parallel.workers = flags.workers;
  job.config.parallel.lanes = kMostWorkers;  // sets no bound, because there are no lanes
  job.config.train.batch_size = kMostWorkers;
  for (const std::string& assignment : flags.sets) {
    const std::string key = assignment.substr(0, assignment.find('='));
    if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys))
      throw Error(ErrorCode::kBadInput,
                  fmt::format("--set {}: distbelief launch knows {}; what the program does is up to its own "
                              "arguments",
                              assignment, fmt::join(kKeys, ", ")));
    job::apply_override(job, assignment);
  }
  job::validate(job);
  return job.config;
}

// Makes the path absolute, so that later commands work from any folder.
std::string absolute_program(const std::string& program) {
  if (program.find('/') == std::string::npos) return program;  // found through PATH
  if (access(program.c_str(), X_OK) != 0 || fs::is_directory(program))
    throw Error(ErrorCode::kBadInput, fmt::format("{} is not a program that can be run", program));
  return fs::absolute(program).string();
}

// `env` sets the variables on the host where the launcher starts the program.
std::vector<std::string> enrolled(const std::vector<std::string>& program,
                                  const cluster::Enrolment& enrolment) {
  std::vector<std::string> command{own_path(), "run-as-worker", "--", "env"};
  for (const cluster::Variable& variable : cluster::variables_of(enrolment))
    command.push_back(variable.name + "=" + variable.value);
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

enum class Beginning { kNew, kResumed };

int supervise(const LaunchFlags& flags, Beginning beginning) {
  const Watch watch;
  const Config config = settings(flags);
  const cluster::RunPlace place = cluster::place_of(flags.run_dir);
  cluster::LaunchOptions launch;
  launch.isa = cluster::pinned_isa();
  const std::string snapshots = config.checkpoint.snapshots ? place.snapshots : "";
  const int code = cluster::supervise(
      {.launch = launch,
       .workers = flags.workers,
       .worker_command =
           [&](const cluster::SupervisorOptions::Worker& worker) {
             return enrolled(flags.program, {.control = worker.control,
                                             .cohort = worker.cohort,
                                             .snapshots = snapshots,
                                             .run_dir = fs::absolute(flags.run_dir)});
           },
       .newest_checkpoint = [&] { return newest_checkpoint(flags.run_dir); },
       .holds_snapshot = [&] { return holds_snapshot(place.snapshots); },
       .run_dir = flags.run_dir,
       .place = place,
       .policy = {.restarts = int(config.elastic.restarts)},
       .min = int(config.elastic.min),
       .max = config.elastic.max > 0 ? int(config.elastic.max) : kMostWorkers,
       .deadline = std::chrono::milliseconds(std::int64_t(1e3 * config.parallel.deadline_seconds)),
       .standby = config.elastic.standby,
       .snapshots = config.checkpoint.snapshots,
       .resume = beginning == Beginning::kResumed},
      watch.interrupted());
  std::fflush(stdout);
  if (code == 130)
    fmt::print(stderr, "interrupted; {}\n", advice_after_interrupt(flags.run_dir));
  else if (code != 0)
    fmt::print(
        stderr,
        "distbelief: the run failed; what happened is in {}/events.jsonl. A program that ends before its "
        "first step may lack a distbelief::elastic::Tracked\n",
        flags.run_dir);
  return code == 0 || code == 2 || code == 130 ? code : 1;
}

int launch(LaunchFlags flags) {
  if (cluster::launcher_place().launched)
    throw Error(ErrorCode::kBadInput,
                "distbelief launch starts the workers itself; do not run it under mpirun or srun");
  cluster::require_short_place();
  if (flags.workers == 0) flags.workers = kDefaultWorkers;
  settings(flags);  // errors come before there is a folder
  flags.program[0] = absolute_program(flags.program[0]);
  const auto fill = [&](const fs::path& folder) {
    report::write_json_atomically(folder / kLaunchFile, {{"program", flags.program},
                                                         {"directory", fs::current_path().string()},
                                                         {"workers", flags.workers},
                                                         {"set", flags.sets}});
  };
  const std::string name = fs::path(flags.program[0]).filename().string();
  const Watch watch;  // from here on there is a run to finish
  const auto judge = [](const fs::path&) { return FormerRun::kGoesOn; };  // if need be from the beginning
  flags.run_dir = make_run_dir(flags.run_dir, name, {.fill = fill, .judge = judge}).string();
  return supervise(flags, Beginning::kNew);
}

}  // namespace

int resume_launched(const LaunchFlags& flags) {
  LaunchFlags all = flags;
  all.run_dir = fs::absolute(flags.run_dir).string();
  const LaunchFile before = read_launch_file(fs::path(all.run_dir) / kLaunchFile);
  all.program = before.program;
  all.sets = before.sets;
  if (flags.workers == 0) all.workers = before.workers;
  all.sets.insert(all.sets.end(), flags.sets.begin(), flags.sets.end());
  cluster::require_short_place();
  absolute_program(all.program[0]);
  fs::current_path(before.directory);  // the working directory of the start
  return supervise(all, Beginning::kResumed);
}

void add_launch(CLI::App& app, const Invocation&, Run& run) {
  auto flags = std::make_shared<LaunchFlags>();
  CLI::App* command =
      app.add_subcommand("launch", "run your own libtorch program so that it survives a lost worker")
          ->group(kStartGroup);
  command->add_option("program", flags->program, "the program and its arguments, after --")->required();
  command->add_option("--workers", flags->workers, "number of worker processes (default: 2)")
      ->check(CLI::Range(1, kMostWorkers));
  command->add_option("--run-dir", flags->run_dir,
                      "folder for logs, events and checkpoints (default: runs/PROGRAM-TIME)");
  command
      ->add_option("--set", flags->sets,
                   fmt::format("override a key: one of {} (repeatable)", fmt::join(kKeys, ", ")))
      ->take_all()
      ->allow_extra_args(false);
  command->footer(
      "Examples:\n"
      "  distbelief launch --workers 4 --run-dir runs/mine -- ./my_program --epochs 5\n"
      "  distbelief launch --set elastic.standby=true -- ./my_program\n"
      "  distbelief status runs/mine\n"
      "The commands status, scale, pause, stop and resume control the run.\n"
      "The program must track its training with distbelief::elastic::Tracked (docs/howto/embed_in_cpp.md).\n"
      "Exit codes: 0 done, 1 failed, 2 bad usage or an exit code 2 of the program, 130 interrupted or "
      "stopped.");
  command->callback([=, &run] { run = [=] { return launch(*flags); }; });
}

}  // namespace distbelief::cli
