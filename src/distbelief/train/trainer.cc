#include "distbelief/train/trainer.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/compute/schedule.h"
#include "distbelief/run/fence.h"
#include "distbelief/run/own_tensors.h"
#include "distbelief/run/patience.h"
#include "distbelief/run/state_file.h"

namespace distbelief::train {

using Clock = std::chrono::steady_clock;

report::Summary Trainer::run(const Start& start) {
  const auto begin = Clock::now();
  prepare(start);
  try {
    train();
    return finish(begin);
  } catch (const Error& error) {
    throw error.at_step(progress_.step);  // the one that was next
  }
}

// All that comes before the first step.
void Trainer::prepare(const Start& start) {
  start_ = start;
  faults_.emplace(options_.faults, world_.rank(), start.generation);
  // Each host keeps the whole state, so stages on several hosts have none but that on the disk.
  if (!options_.snapshots.empty() && (!is_cut() || world_.hosts() == 1))
    snapshotter_ = std::make_unique<run::Snapshotter>(
        world_, run::Snapshotter::Options{.name = options_.snapshots,
                                          .generation = int(start.fence),
                                          .build = run::build_name(options_.isa),
                                          .faults = options_.faults.empty() ? nullptr : &*faults_});
  if (job_.config.report.audit)
    audit_ = std::make_unique<run::AuditLog>(options_.run_dir, start.generation, world_.rank());
  if (start.fence > 0)
    checkpointer_.set_fence(
        [run_dir = options_.run_dir, own = start.fence] { return run::read_fence(run_dir) <= own; });
  if (!options_.faults.empty())
    checkpointer_.set_fault_point([this, step = std::int64_t{0}](const std::string& point) mutable {
      if (point.starts_with("begin step-")) step = std::stoll(point.substr(std::strlen("begin step-")));
      if (point.starts_with("rename")) faults_->pass("mid-rename", step);
      if (faults_->disk_is_full(step))
        throw Error(ErrorCode::kUnavailable, "no space left on device (injected)");
    });
  restore();
  note_tensor();
  note_bits();
  if (options_.link) join_servers();
  build_team();
  watch_balance();
  open_recorder();
  if (options_.vitals) options_.vitals->from_step = options_.vitals->step = progress_.step;
  show(working_state());
  if (is_root())
    recorder_->event(start_.resume ? "resumed" : "started", {{"generation", start_.generation},
                                                             {"workers", world_.size()},
                                                             {"hosts", world_.hosts()},
                                                             {"lanes", job_.config.parallel.lanes},
                                                             {"step", progress_.step}});
  if (options_.when_built) options_.when_built();
}

report::Summary Trainer::finish(Clock::time_point begin) {
  show(run::kSaving);
  run::do_patiently(world_, [this] { checkpointer_.wait(); });
  note_saves();
  report::Summary summary = summarise(std::chrono::duration<double>(Clock::now() - begin).count());
  if (is_root()) recorder_->finish();
  if (!leads() || status_ == "handed over") {
    write_trace();
    return summary;
  }
  run::do_patiently(world_, [&] {
    if (!is_root()) return;
    write_model(summary);
    report::write_json_atomically(options_.run_dir / "summary.json", report::to_json(summary));
  });
  if (is_root()) {
    // A network that no worker has whole is scored by `distbelief report --score`.
    if (!is_cut() && job_.config.parallel.zero < 3 && status_ != "interrupted" && task_->tables().empty())
      keep_answers();
    recorder_->event("finished", {{"status", status_}, {"step", progress_.step}});
  }
  write_trace();
  return summary;
}

void Trainer::write_model(const report::Summary& summary) {
  const std::filesystem::path path = options_.run_dir / "model.safetensors";
  const checkpoint::Metadata metadata{{"model", job_.config.model.name},
                                      {"weights_sha256", summary.weights_sha256}};
  if (checkpointer_.parts() > 1)
    checkpointer_.export_model(progress_.step, path, run::model_metadata(metadata, outline_.buffer_names));
  else
    run::save_model(run::weight_views(kept()[0]), run::buffer_views(*kept()[0].network), path, metadata);
}

void Trainer::train() {
  const std::int64_t total = job_.total_steps();
  verify();
  for (std::int64_t before = progress_.step; !stopped_early_ && has_next_step(); before = progress_.step) {
    const mesh::StepOutcome outcome = one_step();
    verify();  // before anything of this step is kept
    if (!takes_own_steps()) {
      const bool epoch_ended = progress_.epoch > before / progress_.steps_per_epoch;
      if (epoch_ended || progress_.step == total) end_epoch();
      if (stopped_early_ || progress_.step == total) break;
    }
    if (outcome.hand_over) {
      if (snapshotter_)
        take_snapshot();
      else if (last_saved_step_ != progress_.step)
        save(run::Checkpointer::Kind::kRegular);
      world_.communicator().barrier();  // the next generation may read it once all have written
      status_ = "handed over";
      return;
    }
    if (outcome.stop) {
      status_ = "interrupted";
      show(run::kSaving);
      if (last_saved_step_ != progress_.step) save(run::Checkpointer::Kind::kRegular);
      return;
    }
    keep(outcome, before);
    if (balancer_) balance();
    if (outcome.lanes) follow_lane_order();
    if (outcome.pause) pause();
  }
  if (is_cut_short_) {
    status_ = "interrupted";
    if (last_saved_step_ != progress_.step) save(run::Checkpointer::Kind::kRegular);
    return;
  }
  if (takes_own_steps()) finish_served(total);
  if (stopped_early_) status_ = "stopped early";
  if (last_saved_step_ != progress_.step) save(run::Checkpointer::Kind::kRegular);
}

// Snapshots and checkpoints that are due. A replica may not take every step.
void Trainer::keep(const mesh::StepOutcome& outcome, std::int64_t step_before) {
  if (outcome.snapshot && snapshotter_) take_snapshot();
  const std::int64_t every = job_.config.checkpoint.every_steps;
  if (last_saved_step_ != progress_.step &&
      (outcome.save || (every > 0 && progress_.step / every > step_before / every)))
    save(run::Checkpointer::Kind::kRegular);
}

void Trainer::take_snapshot() {
  snapshotter_->take(stages_, peers(), progress_, mesh::update_counts(stages_, outline_, world_, peers()));
  if (options_.vitals) options_.vitals->snapshot_step = progress_.step;
}

// All workers get the same order and wait here; the first that goes on waits for the others in its next step.
// One that was told by another worker's lanes waits a moment for its own order: going on without it would
// leave it waiting in a step for those who pause.
void Trainer::pause() {
  if (options_.orders == nullptr) return;
  show("paused");
  const auto give_up = Clock::now() + std::chrono::seconds(2);
  while (!options_.orders->pause && !options_.orders->stop && Clock::now() < give_up)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const bool rests = rest();
  while (options_.orders->pause && !options_.orders->stop && !options_.stop_requested->load())
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (rests) wake();
  show(working_state());
}

void Trainer::show(const char* state) {
  if (options_.vitals) options_.vitals->state = state;
}

mesh::LaneNotes Trainer::wishes() const {
  const auto wish = [](bool wanted) { return wanted ? 1.0F : 0.0F; };
  const bool signalled = options_.stop_requested && options_.stop_requested->load();
  const run::Orders* orders = options_.orders;
  return {.loss = 0,
          .save = wish(wants_save()),
          .snapshot = wish(speaks() && snapshotter_ && snapshotter_->due(Clock::now())),
          .stop = wish(signalled || (orders && orders->stop)),
          .pause = wish(orders && orders->pause),
          .hand_over = wish(orders && orders->hand_over),
          .lanes = wish(has_new_lane_order())};
}

// data -> forward -> backward -> exchange -> update, for every lane of this worker.
mesh::StepOutcome Trainer::one_step() {
  faults_->pass("step", progress_.step);
  std::int64_t samples = 0;
  for (std::size_t lane = 0; lane < lane_samples_.size(); ++lane) {
    lane_samples_[lane] = std::int64_t(plan_.lane_range(std::uint64_t(progress_.step_in_epoch), lane).size());
    samples += lane_samples_[lane];
  }
  const double lr = compute::learning_rate(job_.config.train.schedule, job_.config.train.optimizer.lr,
                                           progress_.step, job_.steps_per_epoch(), job_.total_steps());
  const auto begin = Clock::now();
  const auto waited_before = group().sharing(0).times().waiting;
  // Replicas that take steps of their own carry what their own last step left, whichever step that was.
  const bool whole = samples == job_.config.train.batch_size;
  const bool fresh = !whole || (takes_own_steps() ? !carries_ : progress_.step_in_epoch == 0);
  const mesh::StepOutcome outcome = team_->step({progress_.step, lr, lane_samples_, fresh}, wishes());
  carries_ = whole;
  if (audit_) audit_->commit();
  finish_step(outcome, samples, lr);
  if (served_ && served_->is_synchronous()) pass_over(served_->next_step());
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  busy_seconds_ =
      seconds - std::chrono::duration<double>(group().sharing(0).times().waiting - waited_before).count();
  if (options_.vitals) show_step(seconds, samples);
  return outcome;
}

void Trainer::show_step(double seconds, std::int64_t samples) {
  run::Vitals& vitals = *options_.vitals;
  vitals.step = progress_.step;
  vitals.epoch = progress_.epoch;
  vitals.loss = progress_.last_loss;
  vitals.step_seconds = seconds;
  vitals.busy_seconds = busy_seconds_;
  vitals.samples_per_second = double(samples) / std::max(1e-9, seconds);
}

void Trainer::finish_step(const mesh::StepOutcome& outcome, std::int64_t samples, double lr) {
  const bool is_searching = options_.link && options_.link->is_searching();
  if (!std::isfinite(outcome.loss) && !is_searching)
    throw Error(
        ErrorCode::kInternal,
        fmt::format(
            "the loss became {} and training cannot go on; lower train.lr, add warm-up or train.clip_norm",
            outcome.loss),
        {.rank = -1, .operation = "train", .step = progress_.step});
  ++progress_.step;
  ++progress_.step_in_epoch;
  progress_.samples += samples;
  if (std::isfinite(outcome.loss)) progress_.last_loss = outcome.loss;
  progress_.epoch_loss += progress_.last_loss;
  if (progress_.step_in_epoch == job_.steps_per_epoch()) {
    progress_.step_in_epoch = 0;
    ++progress_.epoch;
  }
  note_saves();
  if (is_root()) recorder_->step_done(progress_, samples, lr, phases());
}

void Trainer::end_epoch() {
  const bool last = progress_.step == job_.total_steps() || all_steps_done_;
  const std::int64_t every = job_.config.train.validate_every;
  run::Verdict verdict;
  if (last || (every > 0 && progress_.epoch % every == 0)) {
    const auto begin = Clock::now();
    show("validating");
    const tasks::Evaluation evaluation = validate();
    show(working_state());
    verdict = run::judge(job_.config.train, evaluation, progress_);
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
    save(verdict.is_best ? run::Checkpointer::Kind::kBest : run::Checkpointer::Kind::kRegular);
}

bool Trainer::wants_save() const {
  const double every = job_.config.checkpoint.every_seconds;
  return speaks() && every > 0 && std::chrono::duration<double>(Clock::now() - last_save_).count() >= every;
}

void Trainer::save(run::Checkpointer::Kind kind) {
  if (!leads()) return;
  last_saved_step_ = progress_.step;
  last_save_ = Clock::now();
  show(run::kSaving);  // who waits for a disk makes no step, and does not hang
  try {
    save_rows();
    fetch_whole();
    checkpointer_.save(kept(), peers(), progress_,
                       mesh::update_counts(kept(), kept_outline(), world_, peers()), kind);
  } catch (const Error& error) {
    // Only the root writes; what else can fail here concerns the other hosts.
    if (!is_root() || error.code() == ErrorCode::kTimeout || error.code() == ErrorCode::kAborted) throw;
    note_unsaved(progress_.step, error.what());
  }
  show(working_state());
}

// Tells how saves in the background have ended.
void Trainer::note_saves() {
  while (const std::optional<run::Checkpointer::Outcome> outcome = checkpointer_.take_outcome()) {
    if (outcome->failure && outcome->on_disk)
      spdlog::warn("checkpoint of step {}: {}", outcome->step, outcome->failure->what());
    else if (outcome->failure)
      note_unsaved(outcome->step, outcome->failure->what());
    if (!outcome->on_disk) continue;
    if (options_.vitals) options_.vitals->checkpoint_step = outcome->step;
    spdlog::info("checkpoint of step {} written in {:.2f} s", outcome->step, outcome->seconds.count());
    if (is_root())
      recorder_->event("checkpoint", {{"step", outcome->step}, {"seconds", outcome->seconds.count()}});
  }
}

void Trainer::note_unsaved(std::int64_t step, const std::string& reason) {
  if (!is_root()) return;
  spdlog::warn("no checkpoint at step {}: {}; training goes on", step, reason);
  fmt::print(stderr, "distbelief: no checkpoint at step {}: {}; training goes on\n", step, reason);
  recorder_->event("checkpoint failed", {{"reason", reason}, {"step", step}});
}

}  // namespace distbelief::train
