#include "distbelief/process/worker.h"

#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/base/parallel_defaults.h"
#include "distbelief/checkpoint/snapshot_memory.h"
#include "distbelief/cluster/process.h"
#include "distbelief/cluster/run_place.h"
#include "distbelief/comm/texts.h"
#include "distbelief/data/known_set.h"
#include "distbelief/modes/table.h"
#include "distbelief/process/attendance.h"
#include "distbelief/report/run_log.h"
#include "distbelief/run/checkpointer.h"
#include "distbelief/train/train_loop.h"

namespace distbelief::process {
namespace {

// That of the first replica is the run's, others' are in RUN/replicas.
std::filesystem::path folder_of_run(const WorkerOptions& options) {
  return options.replica == 0 ? options.run_dir : options.run_dir.parent_path().parent_path();
}

// Beside the servers' logs.
std::filesystem::path log_of_pushes(const WorkerOptions& options) {
  return folder_of_run(options) / "servers" / fmt::format("replica{}.jsonl", options.replica);
}

// Ranks in faults count the workers of all replicas.
std::vector<run::Fault> own_faults(const WorkerOptions& options, int replica, int workers) {
  std::vector<run::Fault> own = options.faults;
  for (run::Fault& fault : own) fault.rank -= (options.replica + replica) * workers;
  std::erase_if(own, [&](const run::Fault& fault) { return fault.rank < 0 || fault.rank >= workers; });
  return own;
}

// Only the leader of a decomposed model has the whole network.
run::PreparedJob prepare_for(const WorkerOptions& options) {
  const bool has_part = is_decomposed(options.config.parallel) && options.replica > 0;
  // Files may change while a run goes on. A host that does not see the run's folder learns from its own.
  const std::optional<data::KnownSet> known = data::read_known_set(folder_of_run(options));
  data::DataSet data =
      known ? data::open_data_set(options.config.data, *known) : data::open_data_set(options.config.data);
  run::PreparedJob job = has_part ? run::prepare_blueprint(options.config, std::move(data))
                                  : run::prepare_job(options.config, std::move(data));
  job.data_has_changed = known && known->has_changed();
  return job;
}

// Waits for others end when this one is to stop.
std::function<bool()> until_stopped(const WorkerOptions& options, const run::Orders& orders) {
  return [&orders, stop = options.stop_requested] { return !orders.stop && !stop->load(); };
}

// Servers may have been replaced since this worker was started; all have the same certificates.
std::function<std::vector<comm::ControlAddress>()> present_servers(const WorkerOptions& options,
                                                                   const run::Orders& orders) {
  return [&orders, &known = options.servers] {
    std::vector<comm::ControlAddress> found;
    for (const std::string& target : orders.servers.newest()) {
      found.push_back(known.front());
      found.back().target = target;
    }
    return found;
  };
}

modes::ServerShareOptions server_options(const World& world, const WorkerOptions& options,
                                         const run::Orders& orders) {
  return {.config = options.config,
          .servers = options.servers,
          .job = options.served_job,
          .replica = options.replica,
          .replicas = options.replicas,
          .incarnation = options.cohort,
          .first_step = options.first_step,
          .share = world.rank(),
          .shares = world.size(),
          .log = world.rank() == 0 ? log_of_pushes(options) : "",
          .goes_on = until_stopped(options, orders),
          .find_servers = present_servers(options, orders)};
}

void show(const World& world, const char* text) {
  std::fprintf(stderr, "distbelief: worker %d: %s\n", world.rank(), text);
  std::fflush(stderr);
  spdlog::error("{}", text);
}

[[noreturn]] void end_job(World& world, const Error& error) {
  // A job that fails by itself fails on all workers.
  const bool is_told = error.code() == ErrorCode::kAborted || error.code() == ErrorCode::kJobFailed;
  if (world.abort(error.what()) || !is_told) show(world, error.what());
  world.abort_job(exit_code(error.code()));
}

// The supervisor tells why.
[[noreturn]] void end_job_quietly(World& world, const char* text) {
  spdlog::error("{}", text);
  world.abort(text);
  world.abort_job(exit_code(ErrorCode::kJobFailed));
}

// Replicas that share a run's workers: the first writes into the run's folder.
std::filesystem::path folder_of_replica(const std::filesystem::path& run_dir, int replica) {
  if (replica == 0) return run_dir;
  const std::filesystem::path folder = run_dir / "replicas" / std::to_string(replica);
  std::filesystem::create_directories(folder);
  return folder;
}

report::Progress::Options progress_of_replica(report::Progress::Options progress, int replica) {
  if (replica > 0) progress.style = report::ProgressStyle::kNone;
  return progress;
}

// Gives how it ended: the summary's status, or "not needed".
std::string train_attended(World& world, const WorkerOptions& options, run::Vitals& vitals,
                           run::Orders& orders, std::optional<Attendance>& attendance,
                           std::atomic<std::int64_t>& fence) {
  run::PreparedJob job = prepare_for(options);
  const modes::ModeParts mode =
      modes::find_mode(options.config)
          .make({.world = world, .job = job, .servers = server_options(world, options, orders)});
  World& own_world = mode.world ? *mode.world : world;
  if (mode.replica > 0) job.config.report.trace.clear();  // one file, of the first
  train::TrainLoop loop(
      own_world, std::move(job), mode,
      {.run_dir = folder_of_replica(options.run_dir, mode.replica),
       .progress = progress_of_replica(options.progress, mode.replica),
       .stop_requested = options.stop_requested,
       .when_built = options.when_built,
       .isa = options.isa,
       .snapshots = mode.world ? "" : options.snapshots,  // all hosts' workers take them together
       .faults = own_faults(options, mode.replica, own_world.size()),
       .vitals = &vitals,
       .orders = &orders});
  train::RunStart start{.resume = options.resume};
  if (attendance) {
    if (options.cohort > 1) loop.warm_up();
    const std::optional<train::RunStart> turn = attendance->wait_for_turn(*options.stop_requested);
    if (!turn) return "not needed";
    start = *turn;
    fence = start.fence;
  }
  try {
    const report::Summary summary = loop.run(start);
    spdlog::info("{} after {} steps", summary.status, summary.steps);
    return summary.status;
  } catch (const Error& error) {
    // The loop's threads may never come back from what does not answer: nobody waits for them.
    if (error.code() != ErrorCode::kTimeout) throw;
    if (attendance) attendance->fail(error.what(), error.where().rank);
    end_job(world, error);
  }
}

bool is_used_by_later(const std::string& snapshots, std::int64_t fence) {
  const auto memory = checkpoint::SnapshotMemory::find(snapshots);
  const auto newest = memory ? memory->newest() : std::nullopt;
  return newest && newest->generation > fence;
}

// Removes what the run keeps on this host, unless another generation uses it.
void clear_after_supervisor(const WorkerOptions& options, std::int64_t fence) {
  cluster::RunPlace place = cluster::place_of(options.run_dir);
  if (!options.snapshots.empty()) place.snapshots = options.snapshots;
  if (cluster::is_abandoned(place))
    cluster::clear_place(place);
  else if (fence > 0 && !is_used_by_later(place.snapshots, fence))
    cluster::clear_far_place(place.snapshots);
}

// The supervisor is gone and no step ends any more. What the run keeps goes first, and the others get time
// for theirs: the first process that ends makes the launcher kill the rest. The launcher would wait for a
// host that cannot be reached, so whoever has one on this machine ends it.
void abandon_run(const WorkerOptions& options, std::int64_t fence) {
  constexpr std::chrono::seconds kForTheOthers{1};
  clear_after_supervisor(options, fence);
  std::this_thread::sleep_for(kForTheOthers);
  const auto launcher = cluster::ancestor_given({"--run-dir", std::filesystem::absolute(options.run_dir)});
  if (launcher && !cluster::has_supervisor(cluster::place_of(options.run_dir))) kill(*launcher, SIGKILL);
  if (!launcher) std::this_thread::sleep_for(kForTheOthers);
}

// The run is over and on the disk: its snapshots go now, and a host that says so need not be asked to clear
// them. The first worker is the last to be done.
void forget_snapshots(World& world, const WorkerOptions& options, run::Vitals& vitals) {
  world.communicator().barrier();
  if (world.local_rank() != 0) return;
  cluster::clear_far_place(options.snapshots);
  vitals.forgotten = true;
}

// The failure of another worker ends this one too. That one may take a moment to say why, and the first
// process that ends makes the launcher kill the rest.
void give_way() { std::this_thread::sleep_for(std::chrono::seconds(1)); }

}  // namespace

int run_worker(World& world, const WorkerOptions& options) {
  spdlog::set_default_logger(report::open_log(options.run_dir, fmt::format("worker-{}", world.rank())));
  spdlog::info("worker {} of {} on host {} of {}, isa {}", world.rank(), world.size(), world.host(),
               world.hosts(), options.isa);
  require_same_build(world, options.isa);
  require_workers(world, options.config);
  run::Vitals vitals;
  run::Orders orders;
  std::atomic<std::int64_t> fence{0};  // 0: its turn has not come
  std::optional<Attendance> attendance;
  if (options.control)
    attendance.emplace(Attendance::Options{.address = *options.control,
                                           .cohort = options.cohort,
                                           .rank = world.rank(),
                                           .vitals = &vitals,
                                           .orders = &orders,
                                           .deadline = deadline_of(options.config.parallel),
                                           .leaving = options.leaving,
                                           .abandon = [&] { abandon_run(options, fence); }});
  try {
    const std::string status = train_attended(world, options, vitals, orders, attendance, fence);
    const bool is_over = status != "handed over" && status != "not needed";
    if (attendance && is_over && !options.snapshots.empty()) forget_snapshots(world, options, vitals);
    if (attendance) attendance->end(status);
    if (attendance && attendance->is_alone() && world.local_rank() == 0)
      clear_after_supervisor(options, fence);
    return status == "interrupted" ? 130 : 0;
  } catch (const Error& error) {
    const bool is_consequence = error.code() == ErrorCode::kAborted;
    if (attendance && is_consequence) give_way();
    if (attendance && error.code() == ErrorCode::kJobFailed) {
      attendance->fail(error.what(), -1, Attendance::Cause::kJob);
      end_job_quietly(world, error.what());
    }
    if (attendance && !is_consequence) attendance->fail(error.what(), error.where().rank);
    throw;
  } catch (const c10::IndexError& error) {  // a target or a token that the network has no output or row for
    if (!attendance) throw;
    attendance->fail(error.what_without_backtrace(), -1, Attendance::Cause::kJob);
    end_job_quietly(world, error.what_without_backtrace());
  } catch (
      const c10::Error& error) {  // a backtrace differs from time to time: the same fault would not be seen
    if (attendance) attendance->fail(error.what_without_backtrace(), -1);
    throw;
  } catch (const std::exception& error) {
    if (attendance) attendance->fail(error.what(), -1);
    throw;
  }
}

World::Options world_options(const Config& config) {
  return {.algorithm = run::algorithm_of(config),
          .deadline = deadline_of(config.parallel),
          .groups = rank_groups(config.parallel)};
}

void require_workers(const World& world, const Config& config) {
  if (world.size() == config.parallel.workers) return;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format(
          "the job is for {} workers, but MPI started {}; is this mpirun of the MPI that the program was "
          "built with ({})?",
          config.parallel.workers, world.size(), world.mpi_version()));
}

void require_same_build(World& world, const std::string& isa) {
  const std::string own = run::build_name(isa);
  const std::vector<std::string> all = comm::exchange_texts(world.communicator(), own);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      throw Error(
          ErrorCode::kBadInput,
          fmt::format("workers would compute different bits: worker 0 has {}, worker {} has {}; start with "
                      "DISTBELIEF_ISA set to the weakest (distbelief train does that by itself)",
                      all[0], rank, all[rank]));
}

int run_in_world(const World::Options& options, const std::function<int(World&)>& body) {
  World world = World::create(options);
  torch::set_num_threads(1);
  int code = 1;
  try {
    code = body(world);
    world.close();
    return code;
  } catch (const Error& error) {
    end_job(world, error);
  } catch (const c10::Error& error) {
    if (world.abort(error.what_without_backtrace())) show(world, error.what_without_backtrace());
  } catch (const std::exception& error) {
    if (world.abort(error.what())) show(world, error.what());
  }
  world.abort_job(code);
}

int run_worker(const WorkerOptions& options) {
  return run_in_world(world_options(options.config),
                      [&](World& world) { return run_worker(world, options); });
}

}  // namespace distbelief::process
