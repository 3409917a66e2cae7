#include "distbelief/train/run_keeper.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/base/parallel_defaults.h"
#include "distbelief/checkpoint/store.h"
#include "distbelief/run/fence.h"
#include "distbelief/run/own_tensors.h"
#include "distbelief/run/patience.h"
#include "distbelief/run/state_file.h"
#include "distbelief/train/run_summary.h"

namespace distbelief::train {
namespace {

data::BatchMaker::Options test_options(const Config& config) {
  return {.seed = config.train.seed, .normalize = config.data.normalize};
}

run::Checkpointer::Holding holding_of(const Config& config, const World& peers) {
  return config.parallel.zero == 3 && peers.hosts() > 1 ? run::Checkpointer::Holding::kHosts
                                                        : run::Checkpointer::Holding::kAll;
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

void go_to(run::RunProgress& progress, std::int64_t step) {
  progress.step = step;
  progress.epoch = step / progress.steps_per_epoch;
  progress.step_in_epoch = step % progress.steps_per_epoch;
}

// Samples of so many steps, of all replicas.
std::int64_t samples_before(const data::EpochPlan& epochs, std::int64_t step) {
  const auto steps = std::int64_t(epochs.steps());
  return std::int64_t(epochs.samples) * (step / steps) +
         std::int64_t(epochs.step_range(0).size()) * (step % steps);
}

void set_fault_points(run::Checkpointer& checkpointer, run::Faults& faults) {
  checkpointer.set_fault_point([&faults, step = std::int64_t{0}](const std::string& point) mutable {
    if (point.starts_with("begin step-")) step = std::stoll(point.substr(std::strlen("begin step-")));
    if (point.starts_with("rename")) faults.pass("mid-rename", step);
    if (faults.disk_is_full(step)) throw Error(ErrorCode::kUnavailable, "no space left on device (injected)");
  });
}

}  // namespace

RunKeeper::RunKeeper(replica::Replica& replica, modes::Mode& mode, Control& control, RunKeeperOptions options)
    : replica_(replica),
      mode_(mode),
      control_(control),
      options_(std::move(options)),
      job_(replica.job()),
      checkpointer_(replica.world(), options_.run_dir, std::size_t(job_.config.checkpoint.keep),
                    run::build_name(options_.isa)),
      test_batches_(*job_.data.test, test_options(job_.config)),
      test_reader_(test_batches_, {.deadline = deadline_of(job_.config.parallel),
                                   .rank = replica.world().name(replica.world().rank())}) {
  replica::Partition& partition = replica_.partition();
  checkpointer_.set_parts(partition.peers(), partition.tensor_world(),
                          holding_of(job_.config, partition.peers()));
  if (options_.start.fence > 0)
    checkpointer_.set_fence(
        [run_dir = options_.run_dir, own = options_.start.fence] { return run::read_fence(run_dir) <= own; });
  if (options_.faults) set_fault_points(checkpointer_, *options_.faults);
  if (options_.snapshots.empty()) return;
  const mesh::Mesh& mesh = partition.plan().mesh;
  const bool hold_all = mesh::hosts_hold_all(mesh, replica_.world().workers_per_host());
  snapshotter_ = std::make_unique<run::Snapshotter>(
      replica_.world(), run::Snapshotter::Options{.name = options_.snapshots,
                                                  .generation = int(options_.start.fence),
                                                  .build = run::build_name(options_.isa),
                                                  .senders = hold_all ? 0 : mesh.pipeline * mesh.tensor,
                                                  .faults = options_.faults});
}

RunKeeper::~RunKeeper() = default;

bool RunKeeper::is_root() const { return replica_.world().rank() == 0; }

modes::Entry RunKeeper::restore() {
  progress_.steps_per_epoch = job_.steps_per_epoch();
  const std::optional<std::int64_t> checkpoint = restore_state();
  const std::int64_t tensor = replica_.partition().plan().mesh.tensor;  // it decides the order of additions
  if (progress_.step == 0 || progress_.tensor == 0) progress_.tensor = tensor;
  if (progress_.tensor != tensor) progress_.tensor = run::kTensorChanged;
  note_bits();
  return {.step = progress_.step,
          .steps = job_.total_steps(),
          .steps_per_epoch = job_.steps_per_epoch(),
          .samples = std::int64_t(job_.data.train->size()),
          .checkpoint = checkpoint,
          .run_dir = options_.run_dir};
}

// From the newest snapshot, or from the newest checkpoint if that is newer or the only one: gives its step.
std::optional<std::int64_t> RunKeeper::restore_state() {
  replica::Partition& partition = replica_.partition();
  World& peers = partition.peers();
  const mesh::NetworkOutline& outline = partition.outline();
  std::optional<run::Snapshotter::Restored> snapshot;
  if (snapshotter_)
    snapshot = snapshotter_->open(outline.parameters, replica_.group_settings(replica_.stages()[0]),
                                  outline.buffers);
  if (!options_.start.resume) return std::nullopt;
  std::optional<std::int64_t> checkpoint;
  const std::int64_t saved = newest_checkpoint(replica_.world(), options_.run_dir);
  if (snapshot && snapshot->progress.step >= saved) {
    snapshotter_->restore(replica_.stages(), peers);
    for (const mesh::Stage& stage : replica_.stages()) {
      compute::BufferSet buffers(*stage.network);
      std::vector<float> values(buffers.size());
      mesh::copy_runs(mesh::buffer_runs(stage, mesh::Which::kAll), snapshot->buffers.data(), values.data());
      buffers.write(values);
    }
    begin_at(snapshot->progress, snapshot->update_counts, snapshot->build);
  } else if (saved >= 0) {
    const std::span<const mesh::Stage> stages = mode_.record().stages;
    const run::Checkpointer::Restored restored = checkpointer_.open(stages, peers);
    for (const mesh::Stage& stage : stages) {
      if (stage.group->gathers_between_hosts())
        stage.group->barrier();  // each host has read its own
      else
        stage.group->spread_state();
      compute::BufferSet buffers(*stage.network);
      std::vector<float> values(buffers.size());
      buffers.read(values);
      peers.communicator().broadcast(comm::view(values.data(), values.size()), 0);
      buffers.write(values);
    }
    begin_at(restored.progress, restored.update_counts, restored.build);
    checkpoint = last_saved_step_ = progress_.step;
  }
  if (options_.faults) options_.faults->pass("mid-restart", progress_.step);
  return checkpoint;
}

void RunKeeper::begin_at(const run::RunProgress& progress, const std::vector<std::int64_t>& update_counts,
                         const std::string& build) {
  run::require_same_epochs(progress, job_.steps_per_epoch());
  progress_ = progress;
  progress_.steps_per_epoch = job_.steps_per_epoch();  // which an earlier version did not note
  for (const mesh::Stage& stage : replica_.stages()) {
    const auto first = update_counts.begin() + std::ptrdiff_t(stage.outline->first_parameter);
    stage.group->set_update_counts({first, first + std::ptrdiff_t(stage.outline->parameters.size())});
  }
  samples_before_ = progress_.samples;
  stopped_early_ = !run::stop_reason(job_.config.train, progress_).empty();
  if (build == run::build_name(options_.isa)) return;
  lose_bits(fmt::format("a state saved by {} went on with {}", build, run::build_name(options_.isa)));
  if (!is_root()) return;
  spdlog::warn("the state was saved by {}, this is {}", build, run::build_name(options_.isa));
  fmt::print(stderr,
             "distbelief: the state was saved by {}, this is {}: the result will not have the same bits\n",
             build, run::build_name(options_.isa));
}

// Bits that an earlier generation lost stay lost, whatever the present one does.
void RunKeeper::note_bits() {
  const run::Reproducibility now =
      run::reproducibility(job_.config, replica_.world().hosts(), progress_.tensor);
  if (!now.holds) lose_bits(now.note);
}

// A run with no step left cannot lose them any more.
void RunKeeper::lose_bits(const std::string& why) {
  const bool goes_on = !stopped_early_ && progress_.step < job_.total_steps();
  if (goes_on && progress_.bits_lost.empty()) progress_.bits_lost = why;
}

void RunKeeper::open(const modes::Reached& reached) {
  move_to(reached);
  validated_epoch_ = reached.begins_anew ? 0 : progress_.epoch;
  if (!reached.bits_lost.empty()) lose_bits(reached.bits_lost);
  control_.show_start(progress_.step);
  if (!is_root()) return;
  recorder_ = std::make_unique<run::Recorder>(run::Recorder::Options{
      .run_dir = options_.run_dir,
      .report = job_.config.report,
      .progress = options_.progress,
      .epochs = (job_.total_steps() + job_.steps_per_epoch() - 1) / job_.steps_per_epoch(),
      .total_steps = job_.total_steps(),
      .steps_per_epoch = job_.steps_per_epoch(),
      .first_step = progress_.step});
  recorder_->event(options_.start.resume ? "resumed" : "started", {{"generation", options_.start.generation},
                                                                   {"workers", replica_.world().size()},
                                                                   {"hosts", replica_.world().hosts()},
                                                                   {"lanes", job_.config.parallel.lanes},
                                                                   {"step", progress_.step}});
}

void RunKeeper::void_snapshots() {
  if (snapshotter_) snapshotter_->make_void();
}

void RunKeeper::add_wishes(mesh::LaneNotes& wishes) const {
  if (replica_.world().rank() != replica_.speaker()) return;
  const auto now = Clock::now();
  const double every = job_.config.checkpoint.every_seconds;
  if (every > 0 && std::chrono::duration<double>(now - last_save_).count() >= every) wishes.save = 1;
  if (snapshotter_ && snapshotter_->due(now)) wishes.snapshot = 1;
}

void RunKeeper::note_step(const modes::Settled& settled, std::int64_t samples, double lr) {
  if (settled.loss && !std::isfinite(*settled.loss))
    throw Error(
        ErrorCode::kJobFailed,
        fmt::format(
            "the loss became {} and training cannot go on; lower train.lr, add warm-up or train.clip_norm",
            std::abs(*settled.loss)),
        {.rank = -1, .operation = "train", .step = progress_.step});
  ++progress_.step;
  ++progress_.step_in_epoch;
  progress_.samples += samples;
  progress_.last_loss = settled.loss.value_or(progress_.last_loss);
  progress_.epoch_loss += progress_.last_loss;
  if (progress_.step_in_epoch == job_.steps_per_epoch()) {
    progress_.step_in_epoch = 0;
    ++progress_.epoch;
  }
  note_saves();
  if (recorder_) recorder_->step_done(progress_, samples, lr, replica_.phases());
}

void RunKeeper::move_to(const modes::Reached& reached) {
  if (reached.step != progress_.step) go_to(progress_, reached.step);
  if (reached.of_all) progress_.samples = samples_before(replica_.feed().epochs(), reached.step);
  if (!reached.ends) return;
  if (progress_.step_in_epoch > 0) ++progress_.epoch;  // the last one, cut short by train.max_steps, counts
  last_saved_step_ = -1;  // what was saved at this step was so before others had done theirs
}

void RunKeeper::close_epochs(const modes::Reached& reached) {
  if (reached.ends) is_complete_ = true;
  if (!reached.closes_epochs) return;
  if (reached.completes && progress_.step == job_.total_steps()) is_complete_ = true;
  if (!is_complete_ && progress_.epoch <= validated_epoch_) return;
  validated_epoch_ = progress_.epoch;
  end_epoch();
}

void RunKeeper::end_epoch() {
  const std::int64_t every = job_.config.train.validate_every;
  run::Verdict verdict;
  if (is_complete_ || (every > 0 && progress_.epoch % every == 0)) {
    const auto begin = Clock::now();
    control_.show("validating");
    const tasks::Evaluation evaluation = validate();
    control_.show_working();
    verdict = run::judge(job_.config.train, evaluation, progress_);
    if (recorder_)
      recorder_->evaluated(progress_, evaluation,
                           std::chrono::duration<double>(Clock::now() - begin).count());
  }
  progress_.epoch_loss = 0;
  if (!verdict.stop_reason.empty() && !is_complete_) {
    stopped_early_ = true;
    if (recorder_)
      recorder_->event("stopped early", {{"reason", verdict.stop_reason}, {"step", progress_.step}});
  }
  const std::int64_t save_every = job_.config.checkpoint.every_epochs;
  if (verdict.is_best || (save_every > 0 && progress_.epoch % save_every == 0))
    save(verdict.is_best ? run::Checkpointer::Kind::kBest : run::Checkpointer::Kind::kRegular);
}

tasks::Evaluation RunKeeper::validate() {
  const tasks::ReadChunk read = [this](data::Range range) -> const data::Batch& {
    return test_reader_.read(range, progress_.step);
  };
  if (!mode_.record().is_apart) return replica_.evaluate(read);
  mode_.refresh();
  return tasks::evaluate(*mode_.record().stages[0].network, replica_.task(), read, job_.data.test->size(),
                         replica_.world().communicator());
}

void RunKeeper::keep(const mesh::StepOutcome& outcome, std::int64_t before) {
  if (outcome.snapshot && snapshotter_) take_snapshot();
  const std::int64_t every = job_.config.checkpoint.every_steps;
  if (last_saved_step_ != progress_.step &&
      (outcome.save || (every > 0 && progress_.step / every > before / every)))
    save(run::Checkpointer::Kind::kRegular);
}

void RunKeeper::take_snapshot() {
  replica::Partition& partition = replica_.partition();
  snapshotter_->take(
      replica_.stages(), partition.peers(), progress_,
      mesh::update_counts(replica_.stages(), partition.outline(), replica_.world(), partition.peers()));
  control_.show_snapshot(progress_.step);
}

void RunKeeper::save(run::Checkpointer::Kind kind) {
  const modes::Record& record = mode_.record();
  if (!record.writes) return;
  World& peers = replica_.partition().peers();
  last_saved_step_ = progress_.step;
  last_save_ = Clock::now();
  control_.show(run::kSaving);  // a worker that waits for a disk makes no step, and does not hang
  try {
    mode_.save({.step = progress_.step,
                .run_dir = options_.run_dir,
                .keep = std::size_t(job_.config.checkpoint.keep),
                .note = [this](const std::string& kind, nlohmann::json details) {
                  if (recorder_) recorder_->event(kind, std::move(details));
                }});
    mode_.refresh();
    checkpointer_.save(record.stages, peers, progress_,
                       mesh::update_counts(record.stages, *record.outline, replica_.world(), peers), kind);
  } catch (const Error& error) {
    // Only the root writes; what else can fail here concerns the other hosts.
    if (!is_root() || error.code() == ErrorCode::kTimeout || error.code() == ErrorCode::kAborted) throw;
    note_unsaved(progress_.step, error.what());
  }
  control_.show_working();
}

void RunKeeper::save_here() {
  if (last_saved_step_ != progress_.step) save(run::Checkpointer::Kind::kRegular);
}

// Tells how saves in the background have ended.
void RunKeeper::note_saves() {
  while (const std::optional<run::Checkpointer::Outcome> outcome = checkpointer_.take_outcome()) {
    if (outcome->failure && outcome->on_disk)
      spdlog::warn("checkpoint of step {}: {}", outcome->step, outcome->failure->what());
    else if (outcome->failure)
      note_unsaved(outcome->step, outcome->failure->what());
    if (!outcome->on_disk) continue;
    control_.show_checkpoint(outcome->step);
    spdlog::info("checkpoint of step {} written in {:.2f} s", outcome->step, outcome->seconds.count());
    if (recorder_)
      recorder_->event("checkpoint", {{"step", outcome->step}, {"seconds", outcome->seconds.count()}});
  }
}

void RunKeeper::note_unsaved(std::int64_t step, const std::string& reason) {
  if (!is_root()) return;
  spdlog::warn("no checkpoint at step {}: {}; training goes on", step, reason);
  fmt::print(stderr, "distbelief: no checkpoint at step {}: {}; training goes on\n", step, reason);
  recorder_->event("checkpoint failed", {{"reason", reason}, {"step", step}});
}

void RunKeeper::hand_over() {
  if (snapshotter_)
    take_snapshot();
  else
    save_here();
  replica_.world().communicator().barrier();  // the next generation may read it once all have written
  status_ = "handed over";
}

void RunKeeper::interrupt() {
  status_ = "interrupted";
  control_.show(run::kSaving);
  save_here();
}

void RunKeeper::finish(const modes::Finished& finished) {
  progress_.last_loss = finished.loss.value_or(progress_.last_loss);
  if (finished.reached) {
    move_to(*finished.reached);
    close_epochs(*finished.reached);
  }
  if (stopped_early_) status_ = "stopped early";
  save_here();
}

report::Summary RunKeeper::close() {
  control_.show(run::kSaving);
  run::do_patiently(replica_.world(), [this] { checkpointer_.wait(); });
  note_saves();
  report::Summary summary = summarise();
  if (recorder_) recorder_->finish();
  if (mode_.record().writes && status_ != "handed over") write_results(summary);
  return summary;
}

report::Summary RunKeeper::summarise() {
  report::Summary summary =
      summary_of({.replica = &replica_,
                  .record = &mode_.record(),
                  .progress = &progress_,
                  .isa = options_.isa,
                  .seconds = std::chrono::duration<double>(Clock::now() - begun_).count(),
                  .samples_before = samples_before_});
  summary.status = status_;
  summary.step_seconds_median = recorder_ ? recorder_->step_seconds_median() : 0;
  summary.generations = options_.start.generation;
  summary.recoveries = options_.start.recoveries;
  if (snapshotter_) summary.snapshot_seconds = snapshotter_->seconds();
  const modes::Record& record = mode_.record();
  if (is_root() && checkpointer_.parts() == 1)
    summary.weights_sha256 = checkpoint::sha256_by_name(run::weight_views(record.stages[0]));
  else if (record.writes && status_ != "handed over" && checkpointer_.parts() > 1)
    run::do_patiently(replica_.world(), [&] {  // it is read from the disk
      if (is_root()) summary.weights_sha256 = checkpointer_.weights_sha256(progress_.step);
    });
  return summary;
}

void RunKeeper::write_results(const report::Summary& summary) {
  const modes::Record& record = mode_.record();
  run::do_patiently(replica_.world(), [&] {
    if (!is_root()) return;
    const std::filesystem::path path = options_.run_dir / "model.safetensors";
    const checkpoint::Metadata metadata{{"model", job_.config.model.name},
                                        {"weights_sha256", summary.weights_sha256}};
    if (checkpointer_.parts() > 1)
      checkpointer_.export_model(progress_.step, path,
                                 run::model_metadata(metadata, replica_.partition().outline().buffer_names));
    else
      run::save_model(run::weight_views(record.stages[0]), run::buffer_views(*record.stages[0].network), path,
                      metadata);
    report::write_json_atomically(options_.run_dir / "summary.json", report::to_json(summary));
  });
  if (!is_root()) return;
  // A network that no worker has whole is scored by `distbelief report --score`.
  const bool is_whole = !replica_.partition().is_cut() && job_.config.parallel.zero < 3;
  if (is_whole && status_ != "interrupted" && replica_.task().tables().empty())
    keep_answers(job_, *record.stages[0].network, options_.run_dir);
  recorder_->event("finished", {{"status", status_}, {"step", progress_.step}});
}

}  // namespace distbelief::train
