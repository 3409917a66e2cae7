#include "distbelief/train/train_loop.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "distbelief/base/error.h"
#include "distbelief/comm/texts.h"
#include "distbelief/compute/schedule.h"
#include "distbelief/run/audit.h"
#include "distbelief/train/drift_check.h"
#include "distbelief/train/lane_moves.h"

namespace distbelief::train {
namespace {

using Clock = std::chrono::steady_clock;

std::unique_ptr<report::Trace> make_trace(World& world, const ReportConfig& report) {
  if (report.trace.empty()) return nullptr;
  world.communicator().barrier();  // the moment that all hosts call zero
  return std::make_unique<report::Trace>(report::Trace::Options{
      .rank = world.rank(), .process_name = fmt::format("worker {}", world.rank()), .origin = Clock::now()});
}

double seconds_of(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

TrainLoop::TrainLoop(World& world, run::PreparedJob job, const modes::ModeParts& mode,
                     TrainLoopOptions options)
    : world_(world),
      job_(std::move(job)),
      options_(std::move(options)),
      trace_(make_trace(world, job_.config.report)),
      replica_(std::make_unique<replica::Replica>(
          world, job_,
          replica::ReplicaOptions{.terms = mode.terms,
                                  .run_dir = options_.run_dir,
                                  .trace = trace_.get(),
                                  .phase = options_.vitals ? &options_.vitals->phase : nullptr})),
      mode_(mode.make(*replica_)) {}

TrainLoop::~TrainLoop() = default;

// The parts of a run, from start() to its end.
struct TrainLoop::Run {
  TrainLoop& loop;
  replica::Replica& replica = *loop.replica_;
  modes::Mode& mode = *loop.mode_;
  run::Faults faults;
  Control control;
  RunKeeper keeper;
  std::unique_ptr<run::AuditLog> audit;
  std::unique_ptr<DriftCheck> drift;
  std::unique_ptr<LaneMoves> lanes;
  std::vector<std::int64_t> lane_samples;
  double busy_seconds = 0;  // of the last step

  Run(TrainLoop& of, const RunStart& start)
      : loop(of),
        faults(of.options_.faults, of.world_.rank(), start.generation),
        control({.vitals = of.options_.vitals,
                 .orders = of.options_.orders,
                 .stop_requested = of.options_.stop_requested}),
        keeper(replica, mode, control,
               {.run_dir = of.options_.run_dir,
                .progress = of.options_.progress,
                .isa = of.options_.isa,
                .snapshots = of.options_.snapshots,
                .start = start,
                .faults = of.options_.faults.empty() ? nullptr : &faults}),
        lane_samples(std::size_t(of.job_.config.parallel.lanes)) {
    const Config& config = of.job_.config;
    if (config.report.audit)
      audit = std::make_unique<run::AuditLog>(of.options_.run_dir, start.generation, of.world_.rank());
    drift = std::make_unique<DriftCheck>(
        replica, DriftCheckOptions{.every = config.train.verify_every,
                                   .faults = of.options_.faults,
                                   .own_faults = &faults,
                                   .void_snapshots = [this] { keeper.void_snapshots(); },
                                   .are_sent = [this] { return keeper.sends_snapshots(); }});
  }

  void begin();
  replica::ReplicaHooks hooks();
  mesh::LaneNotes wishes() const;
  mesh::StepPlan plan_of(const modes::Work& work);
  std::optional<mesh::StepOutcome> make_step(const modes::Work& work);
  void train();
};

replica::ReplicaHooks TrainLoop::Run::hooks() {
  replica::ReplicaHooks hooks;
  if (audit)
    hooks.on_batch = [this](std::int64_t step, const data::Batch& batch) { audit->add(step, batch); };
  if (loop.options_.faults.empty()) return hooks;
  hooks.slowness = [this](std::int64_t step) { return faults.slowness(step); };
  hooks.in_backward = [this](std::int64_t step) { faults.pass("mid-bucket", step); };
  return hooks;
}

void TrainLoop::Run::begin() {
  keeper.open(mode.join(keeper.restore()));
  const run::RunProgress& at = keeper.progress();
  replica.begin({.epoch = at.epoch, .step_in_epoch = at.step_in_epoch}, hooks());
  const Config& config = loop.job_.config;
  lanes = std::make_unique<LaneMoves>(replica, control,
                                      LaneMovesOptions{.rebalances = config.elastic.rebalance,
                                                       .state_dir = config.parallel.state_dir,
                                                       .recorder = keeper.recorder()});
  control.show_lanes(replica.own_lanes());
  control.show_working();
  if (loop.options_.when_built) loop.options_.when_built();
}

mesh::LaneNotes TrainLoop::Run::wishes() const {
  mesh::LaneNotes wishes = control.wishes();
  keeper.add_wishes(wishes);
  wishes.lanes = lanes->has_order() ? 1.0F : 0.0F;
  return wishes;
}

mesh::StepPlan TrainLoop::Run::plan_of(const modes::Work& work) {
  const run::PreparedJob& job = loop.job_;
  const std::int64_t steps = job.steps_per_epoch();
  std::int64_t samples = 0;
  for (std::size_t lane = 0; lane < lane_samples.size(); ++lane) {
    lane_samples[lane] =
        std::int64_t(replica.feed().epochs().lane_range(std::uint64_t(work.at.step % steps), lane).size());
    samples += lane_samples[lane];
  }
  for (std::size_t lane = 0; work.lanes && lane < lane_samples.size(); ++lane)
    if (std::int64_t(lane) < work.lanes->begin || std::int64_t(lane) >= work.lanes->end)
      lane_samples[lane] = 0;
  return {.step = work.at.step,
          .lr = compute::learning_rate(job.config.train.schedule, job.config.train.optimizer.lr, work.at.step,
                                       steps, job.total_steps()),
          .lane_samples = lane_samples,
          .fresh = samples != job.config.train.batch_size || !work.continues};
}

// data -> lanes -> sum -> update, then what the mode does between replicas.
std::optional<mesh::StepOutcome> TrainLoop::Run::make_step(const modes::Work& work) {
  faults.pass("step", work.at.step);
  const auto begin = Clock::now();
  const auto& times = replica.group().sharing(0).times();
  const auto waited_before = times.waiting;
  const mesh::StepPlan plan = plan_of(work);
  modes::Settled settled;
  try {
    const mesh::StepOutcome own = replica.step(plan, wishes());
    settled = mode.settle(plan, own);
  } catch (const std::exception& error) {
    replica.abort(error.what());
    throw;
  }
  if (audit) audit->commit();
  const std::int64_t samples = mesh::size_of(plan).samples;
  keeper.note_step(settled, samples, plan.lr);
  const double seconds = seconds_of(Clock::now() - begin);
  busy_seconds = seconds - seconds_of(times.waiting - waited_before);
  keeper.move_to(settled.reached);
  control.show_step(keeper.progress(),
                    {.seconds = seconds, .busy_seconds = busy_seconds, .samples = samples});
  drift->check(keeper.progress().step);  // before anything of this step is kept
  keeper.close_epochs(settled.reached);
  return settled.agreed;
}

void TrainLoop::Run::train() {
  drift->check(keeper.progress().step);
  while (!keeper.is_over()) {
    const modes::Work work = mode.next();
    if (work.kind == modes::Work::Kind::kBrokenOff) return keeper.interrupt();
    if (work.kind == modes::Work::Kind::kDone) break;
    keeper.move_to(work.at);
    keeper.close_epochs(work.at);
    const std::int64_t before = keeper.progress().step;
    const std::optional<mesh::StepOutcome> agreed = make_step(work);
    if (keeper.is_over()) break;
    if (!agreed) continue;
    if (agreed->hand_over) return keeper.hand_over();
    if (agreed->stop) return keeper.interrupt();
    keeper.keep(*agreed, before);
    lanes->after_step(busy_seconds, keeper.progress());
    if (agreed->lanes) lanes->follow_order(keeper.progress());
    if (agreed->pause && control.takes_orders()) {
      control.show("paused");
      mode.pause([this] { control.wait_while_paused(); });
      control.show_working();
    }
  }
  keeper.finish(mode.finish());
}

report::Summary TrainLoop::run(const RunStart& start) {
  run_ = std::make_unique<Run>(*this, start);
  run_->begin();
  try {
    run_->train();
    const report::Summary summary = run_->keeper.close();
    write_trace();
    return summary;
  } catch (const Error& error) {
    throw error.at_step(run_->keeper.progress().step);  // the one that was next
  }
}

// Last, and no reason to lose what was trained.
void TrainLoop::write_trace() {
  if (!trace_) return;
  const std::vector<std::string> all = comm::exchange_texts(world_.communicator(), trace_->json());
  if (world_.rank() != 0) return;
  try {
    report::Trace::write_merged(job_.config.report.trace, all);
  } catch (const Error& error) {
    spdlog::warn("no trace: {}", error.what());
    fmt::print(stderr, "distbelief: the run is whole, but its trace is not there: {}\n", error.what());
  }
}

}  // namespace distbelief::train
