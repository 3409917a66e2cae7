#include "distbelief/cli/commands/worker_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>

#include "distbelief/base/error.h"
#include "distbelief/base/hex.h"
#include "distbelief/cli/interruption.h"
#include "distbelief/cluster/launch.h"
#include "distbelief/cluster/run_place.h"
#include "distbelief/cluster/supervisor.h"
#include "distbelief/comm/rpc/certificates.h"
#include "distbelief/job/job_file.h"

namespace distbelief::cli {

namespace fs = std::filesystem;

namespace {

struct WorkerFlags {
  std::string run_dir;
  std::string job_hex;
  std::string progress = "plain";
  int columns = 80;
  bool resume = false;
  bool utf8 = false;
  std::string snapshots;
  std::vector<std::string> inject;
  std::string control;
  int cohort = 1;
  int replica = 0;
  int replicas = 1;
  std::vector<std::string> servers;
  std::string served_job = "job";
  std::int64_t first_step = 0;
};

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

process::WorkerOptions worker_options(const Config& config, const fs::path& run_dir, bool resume,
                                      const report::Progress::Options& progress, const Watch& watch) {
  return {.config = config,
          .run_dir = run_dir,
          .resume = resume,
          .snapshots = {},
          .faults = {},
          .control = {},
          .progress = progress,
          .stop_requested = &watch.interrupted(),
          .isa = std::string(cluster::to_string(cluster::pinned_isa())),
          .when_built = release_unused_memory};
}

std::atomic<bool> leaving{
    false};  // a notice has arrived; a global, because a signal handler can reach nothing else

// SIGTERM and SIGUSR1 come from a scheduler that reclaims the machine; the worker reports this to the
// supervisor. If the supervisor itself ends, it orders the workers to stop; if it has died, workers lose
// their connection and stop too. In both cases the SIGUSR1 that the launcher passes on has no further effect.
void catch_notices() {
  struct sigaction action {};
  action.sa_handler = [](int) { leaving.store(true); };
  for (const int number : {SIGTERM, SIGUSR1}) sigaction(number, &action, nullptr);
}

// Between hosts, uses the user's certificates, or those of the run from the environment. These are removed
// from it, because no child of this process needs them.
comm::ControlAddress control_address(const WorkerFlags& flags, const Config& config) {
  comm::ControlAddress address{.target = flags.control};
  if (flags.control.starts_with("unix:")) return address;
  if (!config.elastic.certs.empty()) {
    address = comm::secure_address(flags.control, config.elastic.certs, "worker");
  } else {
    const char* word = std::getenv(cluster::kCertificatesVariable);
    address = comm::unpack_certificates(flags.control, word == nullptr ? "" : word);
    unsetenv(cluster::kCertificatesVariable);
  }
  address.silence = std::chrono::milliseconds(std::int64_t(1e3 * config.elastic.silence_seconds));
  return address;
}

// A parameter server's address, with the certificates that this worker presents to the supervisor, or the
// user's.
comm::ControlAddress address_of_server(comm::ControlAddress control, const Config& config,
                                       const std::string& target) {
  if (control.certificate.empty()) return server_address(config, target);
  control.target = target;
  control.expected_role = "server";
  return control;
}

int work(const WorkerFlags& flags, const Invocation& invocation) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a worker does not outlive its launcher
  pin_or_restart(invocation);
  const Watch watch;
  const Config config = job::parse_job(from_hex(flags.job_hex), "job");
  process::WorkerOptions options =
      worker_options(config, flags.run_dir, flags.resume,
                     progress_options(flags.progress, flags.columns, flags.utf8), watch);
  options.snapshots = flags.snapshots;
  for (const std::string& fault : flags.inject) options.faults.push_back(run::parse_fault(fault));
  if (!flags.control.empty()) {
    options.control = control_address(flags, config);
    options.leaving = &leaving;
    catch_notices();
  }
  options.cohort = flags.cohort;
  options.replica = flags.replica;
  options.replicas = flags.replicas;
  for (const std::string& target : flags.servers)
    options.servers.push_back(
        address_of_server(options.control.value_or(comm::ControlAddress{}), config, target));
  options.served_job = flags.served_job;
  options.first_step = flags.first_step;
  return process::run_worker(options);
}

}  // namespace

comm::ControlAddress server_address(const Config& config, const std::string& target) {
  if (target.starts_with("unix:") || config.elastic.certs.empty()) return {.target = target};
  comm::ControlAddress address = comm::secure_address(target, config.elastic.certs, "worker");
  address.expected_role = "server";
  address.silence = std::chrono::milliseconds(std::int64_t(1e3 * config.elastic.silence_seconds));
  return address;
}

std::vector<std::string> worker_command(const Config& config, const WorkerCommand& command) {
  // Passes the resolved job on the command line, which needs no shared file system.
  std::vector<std::string> parts{own_path(),   "worker",
                                 "--run-dir",  fs::absolute(command.run_dir).string(),
                                 "--job-hex",  to_hex(job::to_toml(config)),
                                 "--progress", progress_style(config.report.progress),
                                 "--columns",  std::to_string(terminal_columns()),
                                 "--cohort",   std::to_string(command.cohort)};
  if (command.resume) parts.emplace_back("--resume");
  if (terminal_shows_unicode()) parts.emplace_back("--utf8");
  if (!command.snapshots.empty()) parts.insert(parts.end(), {"--snapshots", command.snapshots});
  if (!command.control.empty()) parts.insert(parts.end(), {"--control", command.control});
  for (const std::string& fault : command.inject) parts.insert(parts.end(), {"--inject", fault});
  if (command.servers.empty()) return parts;
  parts.insert(parts.end(), {"--replica", std::to_string(command.replica), "--replicas",
                             std::to_string(command.replicas)});
  for (const std::string& server : command.servers) parts.insert(parts.end(), {"--server", server});
  if (!command.served_job.empty()) parts.insert(parts.end(), {"--served-job", command.served_job});
  if (command.first_step > 0) parts.insert(parts.end(), {"--first-step", std::to_string(command.first_step)});
  return parts;
}

process::WorkerOptions launched_options(const Config& config, const fs::path& run_dir, bool resume,
                                        const Watch& watch) {
  const std::string style = config.report.progress == "auto" ? "plain" : config.report.progress;
  return worker_options(config, run_dir, resume, progress_options(style, 80, false), watch);
}

void pin_or_restart(const Invocation& invocation) {
  if (!cluster::is_pinned()) cluster::restart_pinned(cluster::pinned_isa(), invocation.argv);
}

void add_worker(CLI::App& app, const Invocation& invocation, Run& run) {
  auto flags = std::make_shared<WorkerFlags>();
  CLI::App* command = app.add_subcommand("worker", "run a worker of train")->group(kHiddenGroup);
  command->add_option("--run-dir", flags->run_dir)->required();
  command->add_option("--job-hex", flags->job_hex)->required();
  command->add_option("--progress", flags->progress);
  command->add_option("--columns", flags->columns);
  command->add_flag("--resume", flags->resume);
  command->add_flag("--utf8", flags->utf8);
  command->add_option("--snapshots", flags->snapshots);
  command->add_option("--inject", flags->inject)->take_all()->allow_extra_args(false);
  command->add_option("--control", flags->control);
  command->add_option("--cohort", flags->cohort);
  command->add_option("--replica", flags->replica);
  command->add_option("--replicas", flags->replicas);
  command->add_option("--server", flags->servers)->take_all()->allow_extra_args(false);
  command->add_option("--served-job", flags->served_job);
  command->add_option("--first-step", flags->first_step);
  command->callback([=, &invocation, &run] { run = [=, &invocation] { return work(*flags, invocation); }; });
}

}  // namespace distbelief::cli
