#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "distbelief/base/error.h"
#include "distbelief/checkpoint/store.h"
#include "distbelief/cli/commands.h"
#include "distbelief/cli/job_check.h"
#include "distbelief/cli/job_flags.h"
#include "distbelief/cluster/launch.h"
#include "distbelief/comm/host/communicator.h"
#include "distbelief/compute/replica.h"
#include "distbelief/report/summary.h"
#include "distbelief/train/job.h"
#include "distbelief/train/lane_runner.h"
#include "distbelief/train/run_progress.h"
#include "distbelief/train/worker.h"

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
};

struct WorkerFlags {
  std::string run_dir;
  std::string job_hex;
  std::string progress = "plain";
  int columns = 80;
  bool resume = false;
  bool utf8 = false;
};

// The resolved job travels to the workers on their command line, whatever file systems they share;
// as hex it passes every shell on the way.
std::string to_hex(const std::string& text) {
  std::string hex;
  for (const unsigned char c : text) hex += fmt::format("{:02x}", c);
  return hex;
}

std::string from_hex(const std::string& hex) {
  std::string text;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) text += char(std::stoi(hex.substr(i, 2), nullptr, 16));
  return text;
}

fs::path default_run_dir(const Config& config) {
  const std::time_t now = std::time(nullptr);
  return fs::path("runs") /
         fmt::format("{}-{}-{:%Y%m%d-%H%M%S}", config.model.name, config.data.name, fmt::localtime(now));
}

fs::path make_run_dir(const std::string& wanted, const Config& config) {
  fs::path folder = wanted.empty() ? default_run_dir(config) : fs::path(wanted);
  if (fs::exists(folder / "job.toml"))
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("{} holds a run already; name another --run-dir, or go on with it: distbelief resume {}",
                    folder.string(), folder.string()));
  std::error_code error;
  fs::create_directories(folder / "logs", error);
  if (error)
    throw Error(ErrorCode::kUnavailable,
                fmt::format("cannot make the run folder {}: {}; name another with --run-dir", folder.string(),
                            error.message()));
  return folder;
}

void write_job(const fs::path& run_dir, const Config& config) {
  std::ofstream file(run_dir / "job.toml", std::ios::trunc);
  file << to_toml(config);
  file.close();
  if (!file)
    throw Error(ErrorCode::kUnavailable,
                fmt::format("cannot write {}: no room, or no permission", (run_dir / "job.toml").string()));
}

int terminal_columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool terminal_shows_unicode() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0')
      return std::string(value).find("UTF-8") != std::string::npos ||
             std::string(value).find("utf8") != std::string::npos;
  }
  return false;
}

std::string progress_style(const std::string& wanted) {
  if (wanted != "auto") return wanted;
  return isatty(STDOUT_FILENO) != 0 ? "bar" : "plain";
}

report::Progress::Options progress_options(const std::string& style, int columns, bool utf8) {
  using report::ProgressStyle;
  report::Progress::Options options;
  options.style = style == "bar"    ? ProgressStyle::kBar
                  : style == "none" ? ProgressStyle::kNone
                                    : ProgressStyle::kPlain;
  options.out = stdout;
  options.columns = columns;
  options.utf8 = utf8;
  return options;
}

// Everything that can be known to fail is found before a process starts. Gives the job's steps.
std::int64_t check_before_start(const Job& job, const std::vector<int>& workers_per_host) {
  check_named(job);
  const train::PreparedJob prepared = train::prepare_job(job.config);
  auto options = train::group_options(job.config);
  options.lane_values = train::LaneRunner::lane_values(*prepared.network);
  if (workers_per_host[0] > 1)  // this machine stands for all; each looks again when it starts
    comm::require_shared_memory(
        strategy::AllreduceGroup::bytes_needed(compute::trainable_parameters(*prepared.network), options,
                                               workers_per_host, 0) +
            comm::HostCommunicator::staging_bytes(workers_per_host[0]),
        fmt::format("{} with {} workers", job.config.model.name, workers_per_host[0]));
  return prepared.total_steps();
}

nlohmann::json read_summary(const fs::path& run_dir) {
  std::ifstream file(run_dir / "summary.json");
  return nlohmann::json::parse(file, nullptr, false);
}

// Whether there is nothing left to do, and says so. Names damaged checkpoints.
bool is_finished(const fs::path& run_dir, const Config& config, std::int64_t total_steps) {
  const auto loaded = checkpoint::Store(run_dir / "checkpoints")
                          .load_latest([](const checkpoint::Entry& entry, const Error& error) {
                            fmt::print(stderr, "distbelief: checkpoint {} is damaged and passed over: {}\n",
                                       entry.folder.string(), error.message());
                          });
  if (!loaded)
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} has no whole checkpoint to resume from", run_dir.string()));
  const train::RunProgress progress = train::run_progress_from_json(loaded->progress().at("run"));
  const std::string reason = train::stop_reason(config.train, progress);
  if (reason.empty() && progress.step < total_steps) return false;
  const nlohmann::json summary = read_summary(run_dir);
  if (summary.is_discarded() || summary.value("steps", std::int64_t{-1}) != progress.step)
    return false;  // its end was not recorded
  fmt::print("{} is finished: {} of {} steps{}; to train on: distbelief resume {} --set {}=N\n",
             run_dir.string(), progress.step, total_steps, reason.empty() ? "" : ", " + reason,
             run_dir.string(), config.train.max_steps == total_steps ? "train.max_steps" : "train.epochs");
  return true;
}

void show_end(const fs::path& run_dir) {
  const nlohmann::json summary = read_summary(run_dir);
  if (summary.is_discarded()) return;
  fmt::print("{}: {} steps, {} samples in {:.1f} s ({:.0f} samples/s)", summary.value("status", ""),
             summary.value("steps", std::int64_t{0}), summary.value("samples", std::int64_t{0}),
             summary.value("wall_seconds", 0.0), summary.value("samples_per_second", 0.0));
  if (summary.contains("test_accuracy") && summary["test_accuracy"].is_number())
    fmt::print(", test accuracy {:.2f} %", 100 * summary["test_accuracy"].get<double>());
  fmt::print("\nrun folder: {}\n", run_dir.string());
}

// The supervisor: starts the workers and waits.
int supervise(const Config& config, const std::vector<cluster::HostSlots>& hosts, const fs::path& run_dir,
              bool resume, const Invocation& invocation) {
  cluster::LaunchOptions launch;
  launch.workers = int(config.parallel.workers);
  launch.hosts = hosts;
  launch.isa = cluster::weakest_isa(hosts, own_path(), *invocation.interrupted);
  if (invocation.interrupted->load()) return 130;
  launch.command = {own_path(),   "worker",
                    "--run-dir",  fs::absolute(run_dir).string(),
                    "--job-hex",  to_hex(to_toml(config)),
                    "--progress", progress_style(config.report.progress),
                    "--columns",  std::to_string(terminal_columns())};
  if (resume) launch.command.emplace_back("--resume");
  if (terminal_shows_unicode()) launch.command.emplace_back("--utf8");
  const int code = cluster::run_workers(launch, *invocation.interrupted);
  std::fflush(stdout);
  if (code == 0) show_end(run_dir);
  if (code == 130)
    fmt::print(stderr, "interrupted; what was measured is in {0}; go on with: distbelief resume {0}\n",
               run_dir.string());
  else if (code != 0)
    fmt::print(stderr, "distbelief: the run failed; logs of the workers: {}\n", (run_dir / "logs").string());
  return code == 0 || code == 2 || code == 130 ? code : 1;
}

train::WorkerOptions worker_options(const Config& config, const fs::path& run_dir, bool resume,
                                    const report::Progress::Options& progress, const Invocation& invocation) {
  return {.config = config,
          .run_dir = run_dir,
          .resume = resume,
          .progress = progress,
          .stop_requested = invocation.interrupted,
          .isa = std::string(cluster::to_string(cluster::pinned_isa())),
          .when_built = release_unused_memory};
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
  const std::string style = job.config.report.progress == "auto" ? "plain" : job.config.report.progress;
  return train::run_worker(
      worker_options(job.config, run_dir, resume, progress_options(style, 80, false), invocation));
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

int train(const TrainFlags& flags, const Invocation& invocation) {
  Job job = flags.job.read();
  const std::vector<cluster::HostSlots> hosts = place_workers(flags, job.config);
  if (!flags.trace.empty()) job.config.report.trace = fs::absolute(flags.trace).string();
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
  return supervise(job.config, hosts, run_dir, false, invocation);
}

int resume(const TrainFlags& flags, const Invocation& invocation) {
  const fs::path run_dir = flags.run_dir;
  if (!fs::exists(run_dir / "job.toml"))
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} is not a run folder: it has no job.toml", run_dir.string()));
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
  return supervise(job.config, hosts, run_dir, true, invocation);
}

int work(const WorkerFlags& flags, const Invocation& invocation) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a worker does not outlive its launcher
  pin_or_restart(invocation);
  const Config config = parse_job(from_hex(flags.job_hex), "job");
  return train::run_worker(worker_options(config, flags.run_dir, flags.resume,
                                          progress_options(flags.progress, flags.columns, flags.utf8),
                                          invocation));
}

void add_places(CLI::App& command, TrainFlags& flags) {
  command.add_option("--workers", flags.workers, "how many processes")->check(CLI::Range(1, 4096));
  command.add_option("--hosts", flags.hosts, "on which machines, with how many each: a:2,b:2");
}

}  // namespace

std::string own_path() { return fs::read_symlink("/proc/self/exe").string(); }

void pin_or_restart(const Invocation& invocation) {
  if (!cluster::is_pinned()) cluster::restart_pinned(cluster::pinned_isa(), invocation.argv);
}

void add_train(CLI::App& app, const Invocation& invocation, Run& run) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* command = app.add_subcommand("train", "train a network on many processes");
  flags->job.add_to(*command, false);
  add_places(*command, *flags);
  command->add_option("--run-dir", flags->run_dir,
                      "folder for everything the run writes (default: runs/MODEL-DATA-TIME)");
  command->add_option("--trace", flags->trace, "write a trace for chrome://tracing or ui.perfetto.dev");
  command->add_option("--progress", flags->progress, "auto, bar, plain or none");
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

void add_worker(CLI::App& app, const Invocation& invocation, Run& run) {
  auto flags = std::make_shared<WorkerFlags>();
  CLI::App* command = app.add_subcommand("worker", "what train starts")->group("");
  command->add_option("--run-dir", flags->run_dir)->required();
  command->add_option("--job-hex", flags->job_hex)->required();
  command->add_option("--progress", flags->progress);
  command->add_option("--columns", flags->columns);
  command->add_flag("--resume", flags->resume);
  command->add_flag("--utf8", flags->utf8);
  command->callback([=, &invocation, &run] { run = [=, &invocation] { return work(*flags, invocation); }; });
}

void add_isa(CLI::App& app, const Invocation&, Run& run) {
  CLI::App* command = app.add_subcommand("isa", "the instruction set of this host")->group("");
  command->callback([&run] {
    run = [] {
      fmt::print("{}\n", cluster::to_string(cluster::detect_isa()));
      return 0;
    };
  });
}

}  // namespace distbelief::cli
