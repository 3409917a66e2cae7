#include <fmt/format.h>
#include <signal.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>

#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/interruption.h"
#include "distbelief/cli/named_job.h"
#include "distbelief/cluster/launch.h"
#include "distbelief/job/job_check.h"
#include "distbelief/job/job_file.h"
#include "distbelief/model/registry.h"
#include "distbelief/process/worker.h"
#include "distbelief/run/prepared_job.h"
#include "distbelief/train/step_bench.h"

namespace distbelief::cli {
namespace {

constexpr std::int64_t kMost = 1'000'000;                     // samples, steps, runs
constexpr std::size_t kMostSum = (std::size_t{1} << 33) - 4;  // bytes: MPI counts floats in an int

struct BenchFlags {
  std::string model = "cnn";
  std::int64_t batch = 64;
  int workers = 2;
  std::int64_t steps = 50;
  int repeats = 21;
  std::vector<std::size_t> sizes{std::size_t{64} << 10, std::size_t{1} << 20,  std::size_t{4} << 20,
                                 std::size_t{25} << 20, std::size_t{64} << 20, std::size_t{256} << 20};
  std::vector<std::string> sets;
  bool json = false;
};

// Runs `body` in every worker; starts the workers if this process is not one of them.
int in_workers(const BenchFlags& flags, const Config& config, const Invocation& invocation,
               const std::function<void(World&)>& body) {
  if (!cluster::launcher_place().launched) {
    cluster::LaunchOptions launch;
    launch.workers = flags.workers;
    launch.isa = cluster::pinned_isa();
    launch.command = invocation.arguments;
    launch.command[0] = own_path();
    const int code = cluster::run_workers(launch, Watch().interrupted());
    return code == 0 || code == 2 || code == 130 ? code : 1;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pin_or_restart(invocation);
  spdlog::set_default_logger(spdlog::null_logger_mt("bench"));  // errors are already on standard error
  return process::run_in_world(process::world_options(config), [&](World& world) {
    body(world);
    return 0;
  });
}

// The bench times a network that every worker holds whole, with allreduce.
void refuse_other_layouts(const ParallelConfig& parallel) {
  const std::string set = parallel.pipeline > 1          ? "parallel.pipeline"
                          : parallel.tensor > 1          ? "parallel.tensor"
                          : parallel.mesh != "given"     ? "parallel.mesh"
                          : parallel.sync != "allreduce" ? "parallel.sync"
                                                         : "";
  if (!set.empty())
    throw Error(ErrorCode::kBadInput,
                fmt::format("bench times workers that each hold the whole network and take the mean of their "
                            "gradients; leave "
                            "{} out, and see summary.json of a distbelief train with it",
                            set));
}

job::Job bench_job(const BenchFlags& flags, int workers) {
  job::Job job{job::default_job(), {}};
  job.config.model = {flags.model, {}};
  job.config.train.optimizer = {.name = "sgd", .lr = 0.01, .momentum = 0.9};
  job.config.parallel.workers = workers;
  job.config.train.batch_size = flags.batch * workers;
  for (const std::string& assignment : flags.sets) job::apply_override(job, assignment);
  refuse_other_layouts(job.config.parallel);
  if (job.config.parallel.workers != workers)
    throw Error(ErrorCode::kBadInput,
                "bench has --workers for how many there are; leave parallel.workers out");
  job::validate(job);
  require_named(job, flags.model, "--model");
  check_named(job);
  run::resolve_for_workers(job.config, workers);
  return job;
}

int bench_network(const BenchFlags& flags, const Invocation& invocation) {
  pin_or_restart(invocation);
  torch::set_num_threads(1);
  const job::Job job = bench_job(flags, 1);
  const nlohmann::json result = train::bench_network({job.config, flags.steps, release_unused_memory});
  if (flags.json)
    fmt::print("{}\n", result.dump());
  else
    fmt::print("{}, batch {}: {:.3f} ms forward and backward (median of {})\n", flags.model,
               result["batch"].get<std::int64_t>(), 1e3 * result["seconds_median"].get<double>(),
               flags.steps);
  return 0;
}

int bench_step(const BenchFlags& flags, const Invocation& invocation) {
  const auto place = cluster::launcher_place();
  const job::Job job = bench_job(flags, place.launched ? place.size : flags.workers);
  if (job.config.train.batch_size % job.config.parallel.lanes != 0)
    throw Error(ErrorCode::kBadInput,
                fmt::format("a global batch of {} cannot be dealt evenly to {} lanes; choose --batch "
                            "so that it can",
                            job.config.train.batch_size, job.config.parallel.lanes));
  return in_workers(flags, job.config, invocation, [&](World& world) {
    const nlohmann::json result = train::bench_step(world, {job.config, flags.steps, release_unused_memory});
    if (world.rank() != 0) return;
    if (flags.json)
      fmt::print("{}\n", result.dump());
    else
      fmt::print(
          "{} {} workers, batch {} each: {:.3f} ms a step (median of {}), {:.0f} samples/s, {:.0f} MB in "
          "all\n",
          flags.model, world.size(), result["batch_per_worker"].get<std::int64_t>(),
          1e3 * result["step_seconds_median"].get<double>(), flags.steps,
          result["samples_per_second"].get<double>(), result["peak_pss_bytes"].get<double>() / 1e6);
  });
}

int bench_allreduce(const BenchFlags& flags, const Invocation& invocation) {
  for (const std::size_t bytes : flags.sizes)
    if (bytes % sizeof(float) != 0)
      throw Error(
          ErrorCode::kBadInput,
          fmt::format("--sizes: {} bytes are no whole number of floats; give a multiple of 4", bytes));
  return in_workers(flags, Config{}, invocation, [&](World& world) {
    const nlohmann::json rows = train::bench_allreduce(world, flags.sizes, flags.repeats);
    if (world.rank() != 0) return;
    if (flags.json) {
      fmt::print("{}\n", rows.dump());
      return;
    }
    fmt::print("{:>12} {:>12} {:>12} {:>12} {:>12}\n", "bytes", "ours ms", "MPI ms", "memcpy ms",
               "in place ms");
    for (const auto& row : rows) {
      fmt::print("{:>12}", row["bytes"].get<std::size_t>());
      for (const char* key :
           {"seconds_median", "mpi_seconds_median", "memcpy_seconds_median", "in_place_seconds_median"})
        fmt::print(" {:>12.3f}", 1e3 * row[key].get<double>());
      fmt::print("\n");
    }
  });
}

}  // namespace

void add_bench(CLI::App& app, const Invocation& invocation, Run& run) {
  CLI::App* command = app.add_subcommand("bench", "measure the speed of this machine");
  command->require_subcommand(1);
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* step = command->add_subcommand("step", "time a training step on fixed random data");
  CLI::App* network = command->add_subcommand(
      "network", "time forward and backward of a network, in one process on one thread");
  for (CLI::App* each : {step, network}) {
    each->add_option("--model", flags->model, "name of the model")->capture_default_str();
    each->add_option("--batch", flags->batch, "samples per worker")
        ->capture_default_str()
        ->check(CLI::Range(std::int64_t{1}, kMost));
    each->add_option("--steps", flags->steps, "number of timed steps")
        ->capture_default_str()
        ->check(CLI::Range(std::int64_t{1}, kMost));
    each->add_option("--set", flags->sets,
                     "override a key of the job file: --set model.hidden=[2048,2048] (repeatable)")
        ->take_all()
        ->allow_extra_args(false);
  }
  step->footer("Example:\n  distbelief bench step --model resnet18 --batch 16 --workers 2 --json");
  network->add_flag("--json", flags->json, "print JSON");
  network->footer("Example:\n  distbelief bench network --model lstm --batch 16 --json");
  CLI::App* allreduce =
      command->add_subcommand("allreduce", "time our allreduce, MPI's allreduce and memcpy");
  allreduce->add_option("--sizes", flags->sizes, "sizes in bytes: multiples of 4 below 8 GiB")
      ->delimiter(',')
      ->check(CLI::Range(std::size_t{4}, kMostSum));
  allreduce->add_option("--repeats", flags->repeats, "number of runs per size")
      ->capture_default_str()
      ->check(CLI::Range(1, int(kMost)));
  allreduce->footer("Example:\n  distbelief bench allreduce --workers 2 --sizes 1048576,67108864");
  for (CLI::App* each : {step, allreduce}) {
    each->add_option("--workers", flags->workers, "number of worker processes")
        ->capture_default_str()
        ->check(CLI::Range(1, 4096));
    each->add_flag("--json", flags->json, "print JSON");
  }
  command->footer(
      "Examples:\n  distbelief bench step --model mlp --batch 32\n  distbelief bench allreduce --workers 2");
  add_bench_exchange(*command, invocation, run);
  add_bench_tables(*command, invocation, run);
  command->group(kExpertGroup);  // last, because a new subcommand takes the group of its parent
  step->callback(
      [=, &invocation, &run] { run = [=, &invocation] { return bench_step(*flags, invocation); }; });
  network->callback(
      [=, &invocation, &run] { run = [=, &invocation] { return bench_network(*flags, invocation); }; });
  allreduce->callback(
      [=, &invocation, &run] { run = [=, &invocation] { return bench_allreduce(*flags, invocation); }; });
}

}  // namespace distbelief::cli
