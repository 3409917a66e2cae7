#include "distbelief/train/trainer.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/compute/schedule.h"
#include "distbelief/train/state_file.h"

namespace distbelief::train {
namespace {

using Clock = std::chrono::steady_clock;

data::BatchMaker::Options batch_options(const Config& config) {
  const auto wants = [&](const char* name) {
    return std::find(config.data.augment.begin(), config.data.augment.end(), name) !=
           config.data.augment.end();
  };
  return {.seed = config.train.seed,
          .normalize = config.data.normalize,
          .augment_pad_crop = wants("pad_crop"),
          .augment_flip = wants("flip"),
          .pad = int(config.data.pad)};
}

// The step of the newest checkpoint, on all workers; -1: none. Collective.
std::int64_t newest_checkpoint(World& world, const std::filesystem::path& run_dir) {
  std::int64_t step = -1;
  if (world.rank() == 0) {
    const auto newest = checkpoint::Store(run_dir / "checkpoints")
                            .load_latest([](const checkpoint::Entry& entry, const Error& error) {
                              spdlog::warn("checkpoint {} is damaged and passed over: {}",
                                           entry.folder.string(), error.what());
                            });
    if (newest) step = newest->entry.step;
  }
  world.communicator().broadcast(comm::view(&step, 1), 0);
  return step;
}

data::BatchMaker::Options test_options(const Config& config) {
  return {.seed = config.train.seed, .normalize = config.data.normalize};
}

// Where each core has a carrier, waking a loader thread takes one from it.
std::chrono::nanoseconds own_below(const World& world, int threads) {
  const bool spare_core = unsigned(world.local_size() * threads) < std::thread::hardware_concurrency();
  return spare_core ? std::chrono::microseconds(0) : std::chrono::microseconds(50);
}

}  // namespace

// Puts what the strategy does into the trace.
class Trainer::StepTrace final : public strategy::Observer {
 public:
  StepTrace(report::Trace& trace, int thread) : trace_(trace), thread_(thread) {}
  void span(const char* what, int bucket, Time begin, Time end) override {
    trace_.span(bucket < 0 ? std::string("wait: ") + what : fmt::format("{} bucket {}", what, bucket),
                bucket < 0 ? "wait" : "exchange", begin, end, thread_);
  }

 private:
  report::Trace& trace_;
  int thread_;
};

Trainer::Trainer(World& world, PreparedJob job, Options options)
    : world_(world),
      job_(std::move(job)),
      options_(std::move(options)),
      task_(make_classification(job_.config.train, job_.data.train->spec())),
      plan_{job_.data.train->size(), std::uint64_t(job_.config.train.batch_size),
            std::uint64_t(job_.config.parallel.lanes)},
      train_batches_(*job_.data.train, batch_options(job_.config)),
      test_batches_(*job_.data.test, test_options(job_.config)),
      checkpointer_(world, options_.run_dir, std::size_t(job_.config.checkpoint.keep),
                    build_name(options_.isa)),
      lane_samples_(std::size_t(job_.config.parallel.lanes)),
      last_save_(Clock::now()) {
  if (!job_.config.report.trace.empty()) {
    world_.communicator().barrier();  // the moment that all hosts call zero
    trace_ = std::make_unique<report::Trace>(
        report::Trace::Options{.rank = world_.rank(),
                               .process_name = fmt::format("worker {}", world_.rank()),
                               .origin = Clock::now()});
  }
  build_group();
}

Trainer::~Trainer() = default;

// What would come out of a first step is the same with or without it: weights, running statistics and
// randomness are not touched by what a copy of the network does.
void Trainer::warm_up() {
  const auto network = model::build_model(job_.config.model, job_.shape, job_.config.train.seed);
  data::Batch batch;
  const std::uint64_t size = std::min<std::uint64_t>(plan_.lane_range(0, 0).size(), job_.data.train->size());
  train_batches_.eval_batch({0, std::max<std::uint64_t>(1, size)}, batch);
  for (int i = 0; i < 2; ++i) task_->loss_sum(*network, as_tensors(batch)).backward();
}

void Trainer::open_recorder() {
  if (is_root())
    recorder_ = std::make_unique<Recorder>(Recorder::Options{
        .run_dir = options_.run_dir,
        .report = job_.config.report,
        .progress = options_.progress,
        .epochs = (job_.total_steps() + job_.steps_per_epoch() - 1) / job_.steps_per_epoch(),
        .total_steps = job_.total_steps(),
        .steps_per_epoch = job_.steps_per_epoch(),
        .first_step = progress_.step});
}

// Where the run goes on from: the newest snapshot, or the newest checkpoint if that is newer or the only one.
void Trainer::restore() {
  compute::BufferSet buffers(*job_.network);
  std::optional<Snapshotter::Restored> snapshot;
  if (snapshotter_)
    snapshot =
        snapshotter_->open(compute::trainable_parameters(*job_.network), group_settings(), buffers.size());
  if (!start_.resume) return;
  const std::int64_t saved = newest_checkpoint(world_, options_.run_dir);
  if (snapshot && snapshot->progress.step >= saved) {
    snapshotter_->restore(*group_);
    buffers.write(snapshot->buffers);
    begin_at(snapshot->progress, snapshot->update_counts, snapshot->build);
  } else if (saved >= 0) {
    const Checkpointer::Restored restored = checkpointer_.open(*job_.network);
    if (world_.local_rank() == 0)
      compute::copy_parameters(*job_.network, group_->layout(), group_->parameters());
    if (is_root()) checkpointer_.restore_optimizer(*group_);
    group_->spread_state();
    std::vector<float> values(buffers.size());
    buffers.read(values);
    world_.communicator().broadcast(comm::view(values.data(), values.size()), 0);
    buffers.write(values);
    begin_at(restored.progress, restored.update_counts, restored.build);
    last_saved_step_ = progress_.step;
  }
  faults_->pass("mid-restart", progress_.step);
}

void Trainer::begin_at(const RunProgress& progress, const std::vector<std::int64_t>& update_counts,
                       const std::string& build) {
  progress_ = progress;
  group_->set_update_counts(update_counts);
  samples_before_ = progress_.samples;
  stopped_early_ = !stop_reason(job_.config.train, progress_).empty();
  if (!is_root() || build == build_name(options_.isa)) return;
  spdlog::warn("the state was saved by {}, this is {}", build, build_name(options_.isa));
  fmt::print(stderr,
             "distbelief: the state was saved by {}, this is {}: the result will not have the same bits\n",
             build, build_name(options_.isa));
}

strategy::AllreduceGroup::Options Trainer::group_settings() const {
  strategy::AllreduceGroup::Options options = group_options(job_.config);
  options.lane_values = LaneRunner::lane_values(*job_.network);
  return options;
}

void Trainer::build_group() {
  strategy::AllreduceGroup::Options options = group_settings();
  for (int t = 0; trace_ && t <= options.threads; ++t) {
    trace_->name_thread(t, t < options.threads ? fmt::format("lanes {}", t) : "between hosts");
    observers_.push_back(std::make_unique<StepTrace>(*trace_, t));
    options.observers.push_back(observers_.back().get());
  }
  group_ = std::make_unique<strategy::AllreduceGroup>(world_, compute::trainable_parameters(*job_.network),
                                                      options);
  if (world_.local_rank() == 0)
    compute::copy_parameters(*job_.network, group_->layout(), group_->parameters());
  group_->barrier();
}

std::unique_ptr<LaneRunner> Trainer::make_runner(int thread) {
  const strategy::Carrier& carrier = group_->carrier(thread);
  loaders_.push_back(std::make_unique<data::Loader>(
      train_batches_, data::Loader::Options{.plan = plan_,
                                            .seed = job_.config.train.seed,
                                            .first_lane = std::uint64_t(carrier.first_lane),
                                            .end_lane = std::uint64_t(carrier.end_lane),
                                            .epoch = std::uint64_t(progress_.epoch),
                                            .step = std::uint64_t(progress_.step_in_epoch),
                                            .threads = int(job_.config.data.loader_threads),
                                            .prefetch = int(job_.config.data.prefetch),
                                            .own_below = own_below(world_, group_->threads()),
                                            .deadline = std::chrono::milliseconds(
                                                std::int64_t(1e3 * job_.config.parallel.deadline_seconds))}));
  data::Loader* loader = loaders_.back().get();
  std::shared_ptr<model::Network> network = job_.network;
  if (thread > 0) {
    network = model::build_model(job_.config.model, job_.shape, job_.config.train.seed);
    compute::BufferSet from(*job_.network), to(*network);
    std::vector<float> values(from.size());
    from.read(values);
    to.write(values);
  }
  return std::make_unique<LaneRunner>(LaneRunner::Options{
      .network = std::move(network),
      .layout = &group_->layout(),
      .arena = group_->parameters(),
      .task = task_.get(),
      .sharing = &group_->sharing(thread),
      .next_batch = [this, loader]() -> const data::Batch& {
        const data::Batch& batch = loader->next();
        if (audit_) audit_->add(progress_.step, batch);
        return batch;
      },
      .in_backward = options_.faults.empty() ? std::function<void()>()
                                             : [this] { faults_->pass("mid-bucket", progress_.step); },
      .first_lane = carrier.first_lane,
      .end_lane = carrier.end_lane,
      .seed = job_.config.train.seed,
      .trace = trace_.get(),
      .thread = thread});
}

void Trainer::build_team() {
  std::vector<std::unique_ptr<LaneRunner>> runners;
  for (int t = 0; t < group_->threads(); ++t) runners.push_back(make_runner(t));
  team_ = std::make_unique<LaneTeam>(std::move(runners), group_->abort(), world_.rank());
  if (options_.vitals) team_->first().clock().show_in(&options_.vitals->phase);
}

report::Summary Trainer::run(const Start& start) {
  const auto begin = Clock::now();
  start_ = start;
  faults_.emplace(options_.faults, world_.rank(), start.generation);
  if (!options_.snapshots.empty())
    snapshotter_ = std::make_unique<Snapshotter>(
        world_, Snapshotter::Options{.name = options_.snapshots,
                                     .generation = start.generation,
                                     .build = build_name(options_.isa),
                                     .faults = options_.faults.empty() ? nullptr : &*faults_});
  if (job_.config.report.audit)
    audit_ = std::make_unique<AuditLog>(options_.run_dir, start.generation, world_.rank());
  if (!options_.faults.empty())
    checkpointer_.set_fault_point([this](const std::string& point) {
      if (point.starts_with("rename")) faults_->pass("mid-rename", last_saved_step_);
      if (faults_->disk_is_full(last_saved_step_))
        throw Error(ErrorCode::kUnavailable, "no space left on device (injected)");
    });
  restore();
  build_team();
  open_recorder();
  if (options_.vitals) options_.vitals->step = progress_.step;
  show("training");
  if (is_root())
    recorder_->event(start_.resume ? "resumed" : "started", {{"generation", start_.generation},
                                                             {"workers", world_.size()},
                                                             {"hosts", world_.hosts()},
                                                             {"lanes", job_.config.parallel.lanes},
                                                             {"step", progress_.step}});
  if (options_.when_built) options_.when_built();
  train();
  checkpointer_.wait();
  note_saves();
  report::Summary summary = summarise(std::chrono::duration<double>(Clock::now() - begin).count());
  write_trace();
  if (is_root()) recorder_->finish();
  if (is_root() && status_ != "handed over") {
    report::write_json_atomically(options_.run_dir / "summary.json", report::to_json(summary));
    save_model(*job_.network, options_.run_dir / "model.safetensors",
               {{"model", job_.config.model.name}, {"weights_sha256", summary.weights_sha256}});
    recorder_->event("finished", {{"status", status_}, {"step", progress_.step}});
  }
  return summary;
}

void Trainer::train() {
  const std::int64_t total = job_.total_steps();
  while (!stopped_early_ && progress_.step < total) {
    const LaneRunner::Outcome outcome = one_step();
    const bool epoch_ended = progress_.step_in_epoch == 0;
    if (epoch_ended || progress_.step == total) end_epoch();
    if (stopped_early_ || progress_.step == total) break;
    if (outcome.hand_over && snapshotter_) {
      take_snapshot();
      world_.communicator().barrier();  // the next generation may read it once all have written
      status_ = "handed over";
      return;
    }
    if (outcome.stop) {
      status_ = "interrupted";
      if (last_saved_step_ != progress_.step) save(Checkpointer::Kind::kRegular);
      return;
    }
    keep(outcome);
    if (outcome.pause) pause();
  }
  if (stopped_early_) status_ = "stopped early";
  if (last_saved_step_ != progress_.step) save(Checkpointer::Kind::kRegular);
}

// Snapshots and checkpoints that are due.
void Trainer::keep(const LaneRunner::Outcome& outcome) {
  if (outcome.snapshot && snapshotter_) take_snapshot();
  const std::int64_t every = job_.config.checkpoint.every_steps;
  if (last_saved_step_ != progress_.step && (outcome.save || (every > 0 && progress_.step % every == 0)))
    save(Checkpointer::Kind::kRegular);
}

void Trainer::take_snapshot() {
  std::vector<float> buffers(team_->first().buffers().size());
  team_->first().buffers().read(buffers);
  snapshotter_->take(*group_, progress_, buffers);
  if (options_.vitals) options_.vitals->snapshot_step = progress_.step;
}

// All workers got the same order and wait here; the first that goes on waits for the others in its next step.
void Trainer::pause() {
  if (options_.orders == nullptr) return;
  show("paused");
  while (options_.orders->pause && !options_.orders->stop && !options_.stop_requested->load())
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  show("training");
}

void Trainer::show(const char* state) {
  if (options_.vitals) options_.vitals->state = state;
}

LaneNotes Trainer::wishes() const {
  const auto wish = [](bool wanted) { return wanted ? 1.0F : 0.0F; };
  const bool signalled = options_.stop_requested && options_.stop_requested->load();
  const Orders* orders = options_.orders;
  return {.loss = 0,
          .save = wish(wants_save()),
          .snapshot = wish(is_root() && snapshotter_ && snapshotter_->due(Clock::now())),
          .stop = wish(signalled || (orders && orders->stop)),
          .pause = wish(orders && orders->pause),
          .hand_over = wish(orders && orders->hand_over)};
}

// data -> forward -> backward -> exchange -> update, for every lane of this worker.
LaneRunner::Outcome Trainer::one_step() {
  faults_->pass("step", progress_.step);
  std::int64_t samples = 0;
  for (std::size_t lane = 0; lane < lane_samples_.size(); ++lane) {
    lane_samples_[lane] = std::int64_t(plan_.lane_range(std::uint64_t(progress_.step_in_epoch), lane).size());
    samples += lane_samples_[lane];
  }
  const double lr = compute::learning_rate(job_.config.train.schedule, job_.config.train.optimizer.lr,
                                           progress_.step, job_.steps_per_epoch(), job_.total_steps());
  const auto begin = Clock::now();
  const auto waited_before = group_->sharing(0).times().waiting;
  const LaneRunner::Outcome outcome = team_->step({progress_.step, lr, lane_samples_}, wishes());
  if (audit_) audit_->commit();
  finish_step(outcome, samples, lr);
  if (options_.vitals)
    show_step(std::chrono::duration<double>(Clock::now() - begin).count(),
              std::chrono::duration<double>(group_->sharing(0).times().waiting - waited_before).count(),
              samples);
  return outcome;
}

void Trainer::show_step(double seconds, double waited, std::int64_t samples) {
  Vitals& vitals = *options_.vitals;
  vitals.step = progress_.step;
  vitals.epoch = progress_.epoch;
  vitals.loss = progress_.last_loss;
  vitals.step_seconds = seconds;
  vitals.busy_seconds = seconds - waited;
  vitals.samples_per_second = double(samples) / std::max(1e-9, seconds);
}

void Trainer::finish_step(const LaneRunner::Outcome& outcome, std::int64_t samples, double lr) {
  if (!std::isfinite(outcome.loss))
    throw Error(
        ErrorCode::kInternal,
        fmt::format(
            "the loss became {} and training cannot go on; lower train.lr, add warm-up or train.clip_norm",
            outcome.loss),
        {.rank = -1, .operation = "train", .step = progress_.step});
  ++progress_.step;
  ++progress_.step_in_epoch;
  progress_.samples += samples;
  progress_.last_loss = outcome.loss;
  progress_.epoch_loss += outcome.loss;
  if (progress_.step_in_epoch == job_.steps_per_epoch()) {
    progress_.step_in_epoch = 0;
    ++progress_.epoch;
  }
  if (!is_root()) return;
  recorder_->step_done(progress_, samples, lr, phases());
  note_saves();
}

void Trainer::end_epoch() {
  const bool last = progress_.step == job_.total_steps();
  const std::int64_t every = job_.config.train.validate_every;
  Verdict verdict;
  if (last || (every > 0 && progress_.epoch % every == 0)) {
    const auto begin = Clock::now();
    const Evaluation evaluation = evaluate(team_->first().network(), *task_, test_batches_,
                                           job_.data.test->size(), world_.communicator());
    verdict = judge(job_.config.train, evaluation, progress_);
    if (is_root())
      recorder_->evaluated(progress_, evaluation,
                           std::chrono::duration<double>(Clock::now() - begin).count());
  }
  progress_.epoch_loss = 0;
  if (!verdict.stop_reason.empty() && !last) {
    stopped_early_ = true;
    if (is_root())
      recorder_->event("stopped early", {{"reason", verdict.stop_reason}, {"step", progress_.step}});
  }
  const std::int64_t save_every = job_.config.checkpoint.every_epochs;
  if (verdict.is_best || (save_every > 0 && progress_.epoch % save_every == 0))
    save(verdict.is_best ? Checkpointer::Kind::kBest : Checkpointer::Kind::kRegular);
}

bool Trainer::wants_save() const {
  const double every = job_.config.checkpoint.every_seconds;
  return is_root() && every > 0 && std::chrono::duration<double>(Clock::now() - last_save_).count() >= every;
}

void Trainer::save(Checkpointer::Kind kind) {
  last_saved_step_ = progress_.step;
  last_save_ = Clock::now();
  try {
    checkpointer_.save(*group_, team_->first().network(), progress_, kind);
  } catch (const Error& error) {
    // Only the root writes; what else can fail here concerns the other hosts.
    if (!is_root() || error.code() == ErrorCode::kTimeout || error.code() == ErrorCode::kAborted) throw;
    note_unsaved(progress_.step, error.what());
  }
}

// Tells how saves in the background have ended.
void Trainer::note_saves() {
  while (const std::optional<Checkpointer::Outcome> outcome = checkpointer_.take_outcome()) {
    if (outcome->failure && outcome->on_disk)
      spdlog::warn("checkpoint of step {}: {}", outcome->step, outcome->failure->what());
    else if (outcome->failure)
      note_unsaved(outcome->step, outcome->failure->what());
    if (!outcome->on_disk) continue;
    if (options_.vitals) options_.vitals->checkpoint_step = outcome->step;
    spdlog::info("checkpoint of step {} written in {:.2f} s", outcome->step, outcome->seconds.count());
  }
}

void Trainer::note_unsaved(std::int64_t step, const std::string& reason) {
  if (!is_root()) return;
  spdlog::warn("no checkpoint at step {}: {}; training goes on", step, reason);
  recorder_->event("checkpoint failed", {{"reason", reason}, {"step", step}});
}

}  // namespace distbelief::train
