#include "distbelief/cli/supervised_run.h"

#include <fmt/format.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "distbelief/base/durable_file.h"
#include "distbelief/base/error.h"
#include "distbelief/base/parallel_defaults.h"
#include "distbelief/cli/commands/control_commands.h"
#include "distbelief/cli/finished_run.h"
#include "distbelief/cli/found_network.h"
#include "distbelief/cli/interruption.h"
#include "distbelief/cli/job_flags.h"
#include "distbelief/cli/named_job.h"
#include "distbelief/cli/run_folder.h"
#include "distbelief/cli/standing_servers.h"
#include "distbelief/cluster/fleet.h"
#include "distbelief/cluster/supervisor.h"
#include "distbelief/comm/host/segment.h"
#include "distbelief/comm/texts.h"
#include "distbelief/job/job_check.h"
#include "distbelief/report/page_writer.h"
#include "distbelief/report/summary.h"
#include "distbelief/run/checkpointer.h"
#include "distbelief/run/prepared_job.h"
#include "distbelief/server/audit/log_check.h"
#include "distbelief/server/client/close_job.h"

namespace distbelief::cli {
namespace {

namespace fs = std::filesystem;

// How long to measure each number of workers; empty: elastic.auto is off.
std::optional<std::chrono::duration<double>> measure_each(const Config& config) {
  if (!config.elastic.automatic) return std::nullopt;
  return std::chrono::duration<double>(config.elastic.auto_seconds);
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(std::int64_t(1e3 * seconds));
}

cluster::SupervisorOptions supervisor_options(const Config& config,
                                              const std::vector<cluster::HostSlots>& hosts,
                                              const WorkerCommand& command) {
  const cluster::RunPlace place = cluster::place_of(command.run_dir);
  return {.launch = {},
          .workers = int(config.parallel.workers),
          .hosts = hosts,
          .spares = cluster::parse_hosts(config.elastic.spares),
          .watch = {.hostfile = config.elastic.hostfile,
                    .discovery = config.elastic.discovery,
                    .interval = milliseconds(config.elastic.discovery_seconds),
                    .program = own_path()},
          .silence = milliseconds(config.elastic.silence_seconds),
          .address = config.elastic.address,
          .certs = config.elastic.certs,
          .worker_command =
              [=](const cluster::SupervisorOptions::Worker& worker) {
                Config sized = config;
                sized.parallel.workers = worker.workers;
                sized.parallel.threads = worker.threads;
                WorkerCommand one = command;
                one.cohort = worker.cohort;
                one.control = worker.control;
                if (config.checkpoint.snapshots) one.snapshots = place.snapshots;
                return worker_command(sized, one);
              },
          .newest_checkpoint = [=] { return newest_checkpoint(command.run_dir); },
          .holds_snapshot = [=] { return holds_snapshot(place.snapshots); },
          .run_dir = command.run_dir,
          .place = place,
          .policy = {.restarts = int(config.elastic.restarts)},
          .min = int(config.elastic.min),
          .max = int(config.elastic.max > 0 ? config.elastic.max : run::most_workers(config.parallel)),
          .lanes = int(run::most_workers(config.parallel) * config.parallel.threads),
          .usable = [config](int workers) { return run::usable_workers(config, workers); },
          .threads = int(config.parallel.threads),
          .groups = rank_groups(config.parallel),
          .whole_batch = config.train.optimizer.name == "lbfgs",
          .measure_each = measure_each(config),
          .deadline = deadline_of(config.parallel),
          .standby = config.elastic.standby,
          .snapshots = config.checkpoint.snapshots,
          .resume = command.resume};
}

// The first replica's folder is the run's; the other replicas write into sub-folders.
fs::path folder_of(const fs::path& run_dir, int replica) {
  return replica == 0 ? run_dir : run_dir / "replicas" / std::to_string(replica);
}

std::vector<cluster::ReplicaPlace> replica_places(const ParallelConfig& parallel,
                                                  const std::vector<cluster::HostSlots>& hosts) {
  const auto workers = int(workers_per_replica(parallel));
  if (hosts.empty())
    return std::vector<cluster::ReplicaPlace>(std::size_t(parallel.workers),
                                              {.host = {}, .workers = workers});
  return cluster::place_replicas(hosts, workers, replica_rule(parallel));
}

}  // namespace

void put_earlier_logs_aside(const fs::path& logs) {
  if (!fs::exists(logs)) return;
  int number = 1;
  while (fs::exists(fmt::format("{}-{}", logs.string(), number))) ++number;
  fs::rename(logs, fmt::format("{}-{}", logs.string(), number));
}

std::vector<std::string> server_command(const fs::path& run_dir, const Config& config,
                                        const cluster::FleetProcess& process) {
  std::vector<std::string> parts{
      own_path(),
      "server",
      "--run-dir",
      fs::absolute(run_dir).string(),
      "--control",
      process.control,
      "--listen",
      fmt::format("unix:{}/server{}", cluster::place_of(run_dir).folder.string(), process.launch),
      "--launch",
      std::to_string(process.launch)};
  if (process.address.empty()) return parts;
  parts.insert(parts.end(), {"--address", process.address, "--silence",
                             fmt::format("{}", config.elastic.silence_seconds)});
  if (!config.elastic.certs.empty()) parts.insert(parts.end(), {"--certs", config.elastic.certs});
  return parts;
}

namespace {

cluster::FleetOptions fleet_options(const Config& config, const std::vector<cluster::HostSlots>& hosts,
                                    const WorkerCommand& command) {
  const cluster::RunPlace place = cluster::place_of(command.run_dir);
  return {.launch = {},
          .hosts = hosts,
          .address = config.elastic.address,
          .certs = config.elastic.certs,
          .silence = milliseconds(config.elastic.silence_seconds),
          .servers = int(config.parallel.servers),
          .find_servers = command.servers_at.empty()
                              ? std::function<std::vector<std::string>()>()
                              : [=] { return present_targets(config, command.standing, command.servers_at); },
          .replicas = replica_places(config.parallel, hosts),
          .least = config.elastic.min,
          .most = config.elastic.max,
          .groups = rank_groups(config.parallel),
          .stops_together = !takes_own_steps(config.parallel) || is_decomposed(config.parallel),
          .spares = int(config.parallel.spare_replicas),
          .server_command =
              [=](const cluster::FleetProcess& process) {
                return server_command(command.run_dir, config, process);
              },
          .replica_command =
              [=](const cluster::FleetProcess& process) {
                Config own = config;
                own.parallel.workers = process.workers;
                if (process.index > 0) own.report.progress = "none";
                WorkerCommand one = command;
                one.run_dir = folder_of(command.run_dir, process.index);
                one.cohort = process.launch;
                one.control = process.control;
                one.replica = process.index;
                one.replicas = process.replicas;
                one.servers = process.servers;
                return worker_command(own, one);
              },
          .run_dir = command.run_dir,
          .place = place,
          .policy = {.restarts = int(config.elastic.restarts)},
          .deadline = deadline_of(config.parallel),
          .resume = command.resume,
          .first_step = command.first_step,
          .newest_checkpoint = [=] { return newest_checkpoint(command.run_dir); }};
}

// The run's names on standing servers: one, or one per sub-network.
std::vector<std::string> jobs_there(const Config& config, const WorkerCommand& command) {
  if (!is_decomposed(config.parallel)) return {command.served_job};
  std::vector<std::string> jobs;
  for (std::int64_t i = 0; i < config.parallel.sub_networks; ++i)
    jobs.push_back(fmt::format("{}.sub{}", command.served_job, i));
  return jobs;
}

// Records the place of the servers' logs of this run, for `distbelief audit`.
void note_servers(const Config& config, const WorkerCommand& command) {
  const fs::path file = command.run_dir / server::kStandingFile;
  fs::remove(file);  // left by the start before a resume
  if (command.servers_at.empty()) return;
  std::vector<std::string> marks;
  for (const std::string& job : jobs_there(config, command)) marks.push_back(server::job_mark(job));
  const bool is_folder = fs::is_directory(command.standing);
  report::write_json_atomically(
      file, {{"servers_at", is_folder ? fs::absolute(command.standing).string() : command.standing},
             {"jobs", marks}});
}

// Frees the run's state on standing servers.
void leave_servers(const Config& config, const WorkerCommand& command) {
  if (command.servers_at.empty()) return;
  std::vector<comm::ControlAddress> servers;
  for (const std::string& target : present_targets(config, command.standing, command.servers_at))
    servers.push_back(server_address(config, target));
  try {
    for (const std::string& job : jobs_there(config, command)) server::close_job(servers, job);
  } catch (const Error& error) {
    fmt::print(stderr, "distbelief: the servers may still keep what this run had there: {}\n", error.what());
  }
}

void show_interrupted(const fs::path& run_dir) {
  fmt::print(stderr, "interrupted; what was measured is in {}; {}\n", run_dir.string(),
             advice_after_interrupt(run_dir));
}

// Exits without MPI_Finalize, because an interrupted launcher does not answer any more, and MPI_Finalize
// would wait until the launcher kills the process. The barrier is needed because the launcher kills all
// processes when the first one ends.
[[noreturn]] void leave_interrupted(World& world) {
  world.communicator().barrier();
  std::fflush(nullptr);
  std::_Exit(130);
}

// Removes files that workers were writing when they were killed. Nobody writes any more.
void remove_unfinished(const fs::path& run_dir) {
  std::vector<fs::path> folders{run_dir, run_dir / "checkpoints"}, unfinished;
  std::error_code error;
  for (fs::directory_iterator at(run_dir / "replicas", error), end; !error && at != end; at.increment(error))
    folders.insert(folders.end(), {at->path(), at->path() / "checkpoints"});
  for (const fs::path& folder : folders)
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
      if (at->path().filename().string().starts_with(kTemporaryPrefix)) unfinished.push_back(at->path());
  for (const fs::path& path : unfinished) {
    fs::remove_all(path, error);
    if (error) fmt::print(stderr, "distbelief: cannot remove {}: {}\n", path.string(), error.message());
  }
}

report::PageWriter::Options page_options(const Config& config, const fs::path& run_dir) {
  return {.run_dir = run_dir,
          .every_seconds = config.report.page_seconds,
          .tensorboard = config.report.tensorboard};
}

}  // namespace

cluster::ReplicaRule replica_rule(const ParallelConfig& parallel) {
  return parallel.mode == "hybrid" ? cluster::ReplicaRule::kOnePerHost : cluster::ReplicaRule::kOfEqualSize;
}

cluster::Isa agree_with_hosts(const Config& config, const std::vector<cluster::HostSlots>& hosts,
                              const StartNeeds& needs) {
  const std::vector<cluster::HostSlots> spares = cluster::parse_hosts(config.elastic.spares);
  const cluster::HostAnswers answers = cluster::ask_hosts(hosts, spares, own_path(), Watch().interrupted());
  if (hosts.empty()) return answers.weakest;
  std::size_t place = 0;
  for (const auto* some : {&hosts, &spares})
    for (const cluster::HostSlots& host : *some) {
      const std::optional<std::size_t> free = answers.shared_memory_free[place];
      const comm::SharedMemoryNeed& room = needs.rooms[place++];
      if (free && !was_interrupted()) comm::require_shared_memory_of(host.host, *free, room);
    }
  return answers.weakest;
}

int supervise(const Config& config, const std::vector<cluster::HostSlots>& hosts, cluster::Isa isa,
              const WorkerCommand& command) {
  const Watch watch;
  report::PageWriter page(page_options(config, command.run_dir));
  int code = 1;
  if (has_servers(config.parallel)) {
    put_earlier_logs_aside(command.run_dir / "servers");
    note_servers(config, command);
    cluster::FleetOptions options = fleet_options(config, hosts, command);
    options.launch.isa = isa;
    code = cluster::supervise_fleet(options, watch.interrupted());
    leave_servers(config, command);
  } else {
    cluster::SupervisorOptions options = supervisor_options(config, hosts, command);
    options.launch.isa = isa;
    code = cluster::supervise(options, watch.interrupted());
  }
  page.finish();
  remove_unfinished(command.run_dir);
  std::fflush(stdout);
  const std::string run_dir = command.run_dir.string();
  if (code == 0) {
    show_end(command.run_dir);
    keep_found(command.run_dir, config);
  }
  if (code == 130)
    show_interrupted(command.run_dir);
  else if (code != 0)
    fmt::print(stderr, "distbelief: the run failed; logs of the workers: {}/logs\n", run_dir);
  std::fflush(stdout);  // after the watch, a signal ends the program at once
  return code == 0 || code == 2 || code == 130 ? code : 1;
}

int train_launched(job::Job job, fs::path run_dir, Beginning beginning, const Invocation& invocation) {
  const bool resume = beginning == Beginning::kResumed;
  pin_or_restart(invocation);
  check_named(job);
  const int workers = cluster::launcher_place().size;
  run::resolve_for_workers(job.config, workers);
  const Config kept = job.config;
  if (resume) {
    job.config.train.init.clear();  // a resumed run has its own weights
  } else {
    job::with_places(job, [&] { run::require_mesh(job.config, workers); });
  }
  std::optional<Watch> watch;
  std::optional<FormerFiles> former;                            // on the first worker of a resumed run
  std::optional<report::PageWriter> page;                       // on the first worker
  spdlog::set_default_logger(spdlog::null_logger_mt("start"));  // until there is a folder for logs
  const int code = process::run_in_world(process::world_options(job.config), [&](World& world) {
    std::int64_t is_over = 0;
    StartNeeds needs;
    std::optional<data::KnownSet> known;
    const auto check = [&] {
      if (resume) known = data::read_known_set(run_dir);
      needs = check_launched(job, world, known ? &*known : nullptr);
    };
    if (const int refused = act_together(world, check); refused != 0) return refused;
    watch.emplace();
    const auto begin = [&] {
      if (world.rank() != 0) return;
      if (!resume) {
        require_run_room(run_dir.empty() ? "runs" : run_dir, needs.saved_bytes);
        run_dir = begin_run_dir(run_dir.string(), job.config, needs.data);
      } else if (is_finished(run_dir, job.config, needs, Saved::kCheckpoints)) {
        is_over = 1;
      } else {
        former.emplace(run_dir);
        write_job(run_dir, kept);
        note_data(run_dir, known ? &*known : nullptr, needs.data);
      }
    };
    if (const int refused = act_together(world, begin); refused != 0) return refused;
    world.communicator().broadcast(comm::view(&is_over, 1), 0);
    if (is_over != 0) return 0;
    const std::string folder = world.rank() == 0 ? fs::absolute(run_dir).string() : "";
    const std::string everywhere = comm::broadcast_text(world.communicator(), folder, 0);
    if (world.rank() != 0) run_dir = everywhere;  // it may have been started in another folder
    if (world.rank() == 0) page.emplace(page_options(job.config, run_dir));
    int ended = 0;
    try {
      ended = process::run_worker(world, launched_options(job.config, run_dir, resume, *watch));
    } catch (const Error& error) {
      if (former && error.code() == ErrorCode::kBadInput) former->bring_back();
      throw;
    }
    if (page) page->finish();
    if (page && ended == 130) show_interrupted(run_dir);
    if (ended == 130) leave_interrupted(world);
    return ended;
  });
  if (code == 0 && page) {
    show_end(run_dir);
    keep_found(run_dir, job.config);
  }
  return code;
}

}  // namespace distbelief::cli
