#include "distbelief/cli/commands/plan_command.h"
#include "distbelief/cli/interruption.h"
#include "distbelief/cli/named_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/base/hex.h"
#include "distbelief/base/json_text.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/cli/job_flags.h"
#include "distbelief/cluster/launch.h"
#include "distbelief/job/byte_size.h"
#include "distbelief/job/job_check.h"
#include "distbelief/process/worker.h"
#include "distbelief/report/memory.h"
#include "distbelief/report/summary.h"

namespace distbelief::cli {
namespace {

using Json = nlohmann::json;
constexpr double kGiB = double(std::size_t{1} << 30);

struct PlanFlags {
  JobFlags job;
  int workers = 0;
  std::string hosts;
  std::string memory;
  bool json = false;
};

struct MeasureFlags {
  std::string job_hex;
  std::string out;
  std::vector<std::int64_t> lane_sizes;
};

std::string size_text(std::size_t bytes) {
  return double(bytes) < kGiB / 10 ? fmt::format("{:.1f} MiB", double(bytes) / double(1 << 20))
                                   : fmt::format("{:.2f} GiB", double(bytes) / kGiB);
}

// Returns why the program cannot train a job, or nothing.
std::optional<std::string> refusal(Config config) {
  if (const std::vector<job::Fault> faults = job::find_faults(config); !faults.empty())
    return faults[0].message;
  try {
    run::resolve_for_workers(config, int(config.parallel.workers));
    run::require_mesh(config, int(config.parallel.workers));
  } catch (const Error& error) {
    return error.message();
  }
  return std::nullopt;
}

// As many workers on every host as can compute at the same time; more would disturb the measurement.
cluster::LaunchOptions measuring_workers(const Config& config, const std::vector<cluster::HostSlots>& hosts) {
  const int cores = int(std::max(1U, std::thread::hardware_concurrency()));
  const auto threads = int(config.parallel.threads);
  cluster::LaunchOptions launch;
  launch.workers = std::min(int(config.parallel.workers) * threads, cores);
  for (const cluster::HostSlots& host : hosts) {
    launch.hosts.push_back(host);
    launch.hosts.back().slots = std::min(host.slots * threads, cores);
  }
  if (!hosts.empty())
    launch.workers = std::accumulate(launch.hosts.begin(), launch.hosts.end(), 0,
                                     [](int sum, const auto& host) { return sum + host.slots; });
  launch.isa = cluster::ask_hosts(hosts, {}, own_path(), Watch().interrupted()).weakest;
  return launch;
}

// A job without a mesh, because the measurement does not depend on it.
Config measured_job(const Config& config, int workers) {
  Config plain = config;
  plain.parallel = {};
  plain.parallel.overlap = config.parallel.overlap;
  plain.parallel.bucket_mb = config.parallel.bucket_mb;
  plain.parallel.deadline_seconds = config.parallel.deadline_seconds;
  plain.train.accumulate = 1;
  plain.train.batch_size = std::max<std::int64_t>(workers, config.train.batch_size);
  plain.elastic = {};
  run::resolve_for_workers(plain, workers);
  return plain;
}

planner::PlanMeasurement read_measurement(const std::filesystem::path& path, int code) {
  if (code == 2) throw Error(ErrorCode::kBadInput, "the workers refused the job; see above");
  const Json found = read_json(path);
  if (code != 0 || found.is_discarded())
    throw Error(ErrorCode::kUnavailable,
                fmt::format("the workers that measure ended with code {}; see above", code));
  return planner::plan_measurement_from_json(found);
}

// Starts workers that measure, and returns their results; nothing when interrupted.
std::optional<planner::PlanMeasurement> measured(const Config& config,
                                                 const std::vector<cluster::HostSlots>& hosts) {
  const Watch watch;  // so that the folder is removed
  const ScratchFolder scratch;
  const std::filesystem::path answer = scratch.path() / "measured.json";
  const std::vector<std::int64_t> sizes = planner::lane_sizes(
      planner::layout_job(config, cluster::workers_per_host(hosts, int(config.parallel.workers))),
      planner::given_lanes(config));
  cluster::LaunchOptions launch = measuring_workers(config, hosts);
  launch.command = {
      own_path(), "measure",       "--job-hex", to_hex(job::to_toml(measured_job(config, launch.workers))),
      "--out",    answer.string(), "--lanes",   fmt::format("{}", fmt::join(sizes, ","))};
  fmt::print(stderr, "distbelief: measuring {} on {} worker{}, lanes of {} samples\n", config.model.name,
             launch.workers, launch.workers == 1 ? "" : "s", fmt::join(sizes, " and "));
  const int code = cluster::run_workers(launch, watch.interrupted());
  if (was_interrupted()) return std::nullopt;
  return read_measurement(answer, code);
}

int measure(const MeasureFlags& flags, const Invocation& invocation) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a worker does not outlive its launcher
  pin_or_restart(invocation);
  spdlog::set_default_logger(spdlog::null_logger_mt("measure"));  // errors are already on standard error
  const Config config = job::parse_job(from_hex(flags.job_hex), "job");
  return process::run_in_world(process::world_options(config), [&](World& world) {
    const planner::PlanMeasurement found = planner::measure_for_plan(
        world, config, {.lane_sizes = flags.lane_sizes, .release_unused_memory = release_unused_memory});
    if (world.rank() == 0) report::write_json_atomically(flags.out, to_json(found));
    return 0;
  });
}

std::string no_layout(const planner::Plan& plan, std::size_t limit) {
  if (const planner::LeftOut* least = planner::smallest_left_out(plan))
    return fmt::format(
        "no layout fits {} per worker; {} needs least, {} per worker: give each worker that much, take more "
        "workers, or a smaller batch or network",
        size_text(limit), to_string(least->layout), size_text(least->bytes_needed));
  std::string message = "no layout of these workers is possible:";
  for (const planner::LeftOut& left : plan.left_out)
    message += fmt::format("\n  {}: {}", to_string(left.layout), left.reason);
  return message;
}

std::string mesh_text(const planner::MeshLayout& layout) {
  std::string text = fmt::format("data {}", layout.mesh.data);
  if (layout.mesh.pipeline > 1) text += fmt::format(" x pipeline {}", layout.mesh.pipeline);
  if (layout.mesh.tensor > 1) text += fmt::format(" x tensor {}", layout.mesh.tensor);
  if (layout.zero > 1) text += fmt::format(", zero {}", layout.zero);
  return text;
}

std::string schedule_text(const planner::MeshLayout& layout) {
  if (layout.mesh.pipeline == 1) return "-";
  return std::string(to_string(layout.schedule)) + (layout.recompute ? ", recompute" : "");
}

void show(const planner::Plan& plan) {
  std::size_t mesh = 4, schedule = 8;
  for (const planner::PlannedLayout& planned : plan.layouts) {
    mesh = std::max(mesh, mesh_text(planned.layout).size());
    schedule = std::max(schedule, schedule_text(planned.layout).size());
  }
  fmt::print("{:<{}}  {:<{}}  {:>5}  {:>9}  {:>10}  {:>10}  {}\n", "mesh", mesh, "schedule", schedule,
             "lanes", "step ms", "samples/s", "per worker", "note");
  for (const planner::PlannedLayout& planned : plan.layouts)
    fmt::print("{:<{}}  {:<{}}  {:>5}  {:>9.2f}  {:>10.0f}  {:>10}  {}\n", mesh_text(planned.layout), mesh,
               schedule_text(planned.layout), schedule, planned.layout.lanes, 1e3 * planned.seconds.total(),
               planned.samples_per_second, size_text(planned.bytes.total()), planned.note);
  if (!plan.left_out.empty()) fmt::print("left out:\n");
  for (const planner::LeftOut& left : plan.left_out)
    fmt::print("  {}: {}\n", to_string(left.layout), left.reason);
}

void show_json(const planner::Plan& plan, const planner::PlanMeasurement& found, std::size_t limit) {
  Json layouts = Json::array(), left_out = Json::array();
  for (const planner::PlannedLayout& planned : plan.layouts) layouts.push_back(to_json(planned));
  for (const planner::LeftOut& left : plan.left_out) left_out.push_back(to_json(left));
  fmt::print("{}\n", Json{{"workers", plan.layouts[0].layout.mesh.workers()},
                          {"memory_per_worker", limit},
                          {"layouts", layouts},
                          {"left_out", left_out},
                          {"measured", to_json(found)}}
                         .dump());
}

// The layout settings of a job that a plan ignores.
std::vector<std::string> set_aside(const ParallelConfig& parallel) {
  const ParallelConfig usual;
  std::vector<std::string> keys;
  const auto note = [&](bool given, const char* key) {
    if (given) keys.emplace_back(key);
  };
  note(parallel.data != usual.data, "data");
  note(parallel.pipeline != usual.pipeline, "pipeline");
  note(parallel.tensor != usual.tensor, "tensor");
  note(parallel.schedule != usual.schedule, "schedule");
  note(parallel.chunks != usual.chunks, "chunks");
  note(!parallel.cuts.empty(), "cuts");
  note(parallel.recompute, "recompute");
  note(parallel.split_features, "split_features");
  return keys;
}

// The job for this number of workers, without the mesh that it may name, because all meshes are planned.
job::Job job_to_plan(const PlanFlags& flags, const std::vector<cluster::HostSlots>& hosts) {
  job::Job job = flags.job.read();
  const int slots = std::accumulate(hosts.begin(), hosts.end(), 0,
                                    [](int sum, const auto& host) { return sum + host.slots; });
  if (slots > 0 && flags.workers > 0 && flags.workers != slots)
    throw Error(ErrorCode::kBadInput, fmt::format("--workers {} and --hosts {} disagree; give one of them",
                                                  flags.workers, flags.hosts));
  if (slots > 0 || flags.workers > 0) job.config.parallel.workers = std::max(slots, flags.workers);
  if (const std::vector<std::string> keys = set_aside(job.config.parallel); !keys.empty())
    fmt::print(stderr, "distbelief: of [parallel] the plan sets aside {}: it compares all layouts\n",
               fmt::join(keys, ", "));
  job.config = planner::with_layout(job.config, {.mesh = {.data = int(job.config.parallel.workers)},
                                                 .zero = int(job.config.parallel.zero),
                                                 .lanes = planner::given_lanes(job.config)});
  job.config.parallel.data = 0;
  job.config.parallel.split_features = false;  // concerns a tensor group, which is not chosen yet
  job::validate(job);
  check_named(job);
  return job;
}

int plan(const PlanFlags& flags) {
  const std::size_t limit = flags.memory.empty() ? 0 : job::parse_bytes(flags.memory, "--memory-per-worker");
  const std::vector<cluster::HostSlots> hosts =
      flags.hosts.empty() ? std::vector<cluster::HostSlots>{} : cluster::parse_hosts(flags.hosts);
  const job::Job job = job_to_plan(flags, hosts);
  pack_cache(job);
  const std::optional<planner::PlanMeasurement> found = measured(job.config, hosts);
  if (!found || was_interrupted()) return 130;
  const planner::Plan plan = planner::plan_job(
      {.config = job.config,
       .workers_per_host = cluster::workers_per_host(hosts, int(job.config.parallel.workers)),
       .memory_limit = limit,
       .refused = refusal},
      *found);
  if (plan.layouts.empty()) throw Error(ErrorCode::kBadInput, no_layout(plan, limit));
  if (flags.json)
    show_json(plan, *found, limit);
  else
    show(plan);
  return 0;
}

}  // namespace

std::optional<ChosenLayout> choose_layout(const job::Job& job, const std::vector<cluster::HostSlots>& hosts) {
  const std::vector<int> workers = cluster::workers_per_host(hosts, int(job.config.parallel.workers));
  const std::size_t limit =
      report::available_bytes() / std::size_t(*std::max_element(workers.begin(), workers.end()));
  const std::optional<planner::PlanMeasurement> found = measured(job.config, hosts);
  if (!found || was_interrupted()) return std::nullopt;
  const planner::Plan plan = planner::plan_job(
      {.config = job.config, .workers_per_host = workers, .memory_limit = limit, .refused = refusal}, *found);
  if (plan.layouts.empty()) throw Error(ErrorCode::kBadInput, no_layout(plan, limit));
  const planner::PlannedLayout& best = plan.layouts[0];
  fmt::print(stderr,
             "distbelief: parallel.mesh = \"auto\" takes {}: {:.2f} ms a step and {} per worker predicted, "
             "best of {}\n",
             to_string(best.layout), 1e3 * best.seconds.total(), size_text(best.bytes.total()),
             plan.layouts.size());
  const std::int64_t samples = (job.config.train.batch_size + best.layout.lanes - 1) / best.layout.lanes;
  const auto lane = std::ranges::find(found->lanes, samples, &planner::LaneCosts::samples);
  ChosenLayout chosen{planner::with_layout(job.config, best.layout),
                      lane == found->lanes.end() ? planner::LaneCosts{} : *lane};
  if (best.cut_for_memory)
    chosen.config.parallel.cuts.assign(best.cuts.ends.begin(), best.cuts.ends.end() - 1);
  return chosen;
}

void add_plan(CLI::App& app, const Invocation&, Run& run) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* command =
      app.add_subcommand("plan", "predict the step time and memory of every mesh of workers for a job")
          ->group(kExpertGroup);
  flags->job.add_to(*command, false);
  command->add_option("--workers", flags->workers, "number of worker processes")->check(CLI::Range(1, 4096));
  command->add_option("--hosts", flags->hosts, "hosts, with the number of workers on each: a:2,b:2");
  command->add_option("--memory-per-worker", flags->memory,
                      "leave out meshes that need more: 1.2G, 800M (default: no limit)");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "The command measures the network's blocks and the exchange between workers for a few seconds.\n"
      "It then predicts the time of a step and the memory of a worker for every mesh, fastest first.\n"
      "parallel.mesh = \"auto\" takes the first mesh of this list.\n"
      "Examples:\n"
      "  distbelief plan job.toml --workers 4\n"
      "  distbelief plan job.toml --workers 4 --memory-per-worker 1.2G --set train.batch_size=256 --json");
  command->callback([=, &run] { run = [=] { return plan(*flags); }; });
}

void add_measure(CLI::App& app, const Invocation& invocation, Run& run) {
  auto flags = std::make_shared<MeasureFlags>();
  CLI::App* command = app.add_subcommand("measure", "measure a network for plan")->group(kHiddenGroup);
  command->add_option("--job-hex", flags->job_hex)->required();
  command->add_option("--out", flags->out)->required();
  command->add_option("--lanes", flags->lane_sizes)->required()->delimiter(',');
  command->callback(
      [=, &invocation, &run] { run = [=, &invocation] { return measure(*flags, invocation); }; });
}

}  // namespace distbelief::cli
