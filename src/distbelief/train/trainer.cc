#include "distbelief/train/trainer.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/compute/schedule.h"
#include "distbelief/report/memory.h"
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

data::BatchMaker::Options test_options(const Config& config) {
  return {.seed = config.train.seed, .normalize = config.data.normalize};
}

// Where each core has a carrier, waking a loader thread takes one from it.
std::chrono::nanoseconds own_below(const World& world, int threads) {
  const bool spare_core = unsigned(world.local_size() * threads) < std::thread::hardware_concurrency();
  return spare_core ? std::chrono::microseconds(0) : std::chrono::microseconds(50);
}

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
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
  if (options_.resume) restore();
  build_group();
  build_team();
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

Trainer::~Trainer() = default;

void Trainer::restore() {
  Checkpointer::Restored restored = checkpointer_.open(*job_.network);
  progress_ = restored.progress;
  update_counts_ = std::move(restored.update_counts);
  if (is_root() && restored.build != build_name(options_.isa)) {
    spdlog::warn("the checkpoint was made with {}, this is {}", restored.build, build_name(options_.isa));
    fmt::print(
        stderr,
        "distbelief: the checkpoint was made with {}, this is {}: the result will not have the same bits\n",
        restored.build, build_name(options_.isa));
  }
  samples_before_ = progress_.samples;
  last_saved_step_ = progress_.step;
  stopped_early_ = !stop_reason(job_.config.train, progress_).empty();
  compute::BufferSet buffers(*job_.network);
  std::vector<float> values(buffers.size());
  buffers.read(values);
  world_.communicator().broadcast(comm::view(values.data(), values.size()), 0);
  buffers.write(values);
}

void Trainer::build_group() {
  strategy::AllreduceGroup::Options options = group_options(job_.config);
  options.lane_values = LaneRunner::lane_values(*job_.network);
  options.update_counts = update_counts_;
  for (int t = 0; trace_ && t <= options.threads; ++t) {
    trace_->name_thread(t, t < options.threads ? fmt::format("lanes {}", t) : "between hosts");
    observers_.push_back(std::make_unique<StepTrace>(*trace_, t));
    options.observers.push_back(observers_.back().get());
  }
  group_ = std::make_unique<strategy::AllreduceGroup>(world_, compute::trainable_parameters(*job_.network),
                                                      options);
  if (world_.local_rank() == 0)
    compute::copy_parameters(*job_.network, group_->layout(), group_->parameters());
  if (options_.resume) {
    if (is_root()) checkpointer_.restore_optimizer(*group_);
    group_->spread_state();
  }
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
  return std::make_unique<LaneRunner>(
      LaneRunner::Options{.network = std::move(network),
                          .layout = &group_->layout(),
                          .arena = group_->parameters(),
                          .task = task_.get(),
                          .sharing = &group_->sharing(thread),
                          .next_batch = [loader]() -> const data::Batch& { return loader->next(); },
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
}

report::Summary Trainer::run() {
  const auto begin = Clock::now();
  if (is_root())
    recorder_->event(options_.resume ? "resumed" : "started", {{"generation", 1},
                                                               {"workers", world_.size()},
                                                               {"hosts", world_.hosts()},
                                                               {"lanes", job_.config.parallel.lanes},
                                                               {"step", progress_.step}});
  if (options_.when_built) options_.when_built();
  train();
  report::Summary summary = summarise(std::chrono::duration<double>(Clock::now() - begin).count());
  write_trace();
  if (is_root()) {
    recorder_->finish();
    report::write_json_atomically(options_.run_dir / "summary.json", report::to_json(summary));
    save_model(*job_.network, options_.run_dir / "model.safetensors",
               {{"model", job_.config.model.name}, {"weights_sha256", summary.weights_sha256}});
    recorder_->event("ended", {{"status", status_}, {"step", progress_.step}});
  }
  return summary;
}

void Trainer::train() {
  const std::int64_t total = job_.total_steps();
  while (!stopped_early_ && progress_.step < total) {
    const LaneRunner::Outcome outcome = one_step();
    const bool epoch_ended = progress_.step_in_epoch == 0;
    if (epoch_ended || progress_.step == total) end_epoch();
    if (outcome.stop && !stopped_early_ && progress_.step < total) {
      status_ = "interrupted";
      if (last_saved_step_ != progress_.step) save(Checkpointer::Kind::kRegular);
      return;
    }
    const std::int64_t every = job_.config.checkpoint.every_steps;
    if (last_saved_step_ != progress_.step && (outcome.save || (every > 0 && progress_.step % every == 0)))
      save(Checkpointer::Kind::kRegular);
  }
  if (stopped_early_) status_ = "stopped early";
  if (last_saved_step_ != progress_.step) save(Checkpointer::Kind::kRegular);
}

// data -> forward -> backward -> exchange -> update, for every lane of this worker.
LaneRunner::Outcome Trainer::one_step() {
  std::int64_t samples = 0;
  for (std::size_t lane = 0; lane < lane_samples_.size(); ++lane) {
    lane_samples_[lane] = std::int64_t(plan_.lane_range(std::uint64_t(progress_.step_in_epoch), lane).size());
    samples += lane_samples_[lane];
  }
  const double lr = compute::learning_rate(job_.config.train.schedule, job_.config.train.optimizer.lr,
                                           progress_.step, job_.steps_per_epoch(), job_.total_steps());
  const LaneNotes wishes{.loss = 0,
                         .save = wants_save() ? 1.0F : 0.0F,
                         .stop = options_.stop_requested && options_.stop_requested->load() ? 1.0F : 0.0F};
  const LaneRunner::Outcome outcome = team_->step({progress_.step, lr, lane_samples_}, wishes);
  finish_step(outcome, samples, lr);
  return outcome;
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
  if (is_root()) recorder_->step_done(progress_, samples, lr, phases());
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
    spdlog::warn("no checkpoint at step {}: {}; training goes on", progress_.step, error.what());
    recorder_->event("checkpoint failed", {{"reason", error.what()}, {"step", progress_.step}});
  }
}

// The clock's view, with the strategy's own work during backward taken out of it.
report::PhaseSeconds Trainer::phases() {
  using report::Phase;
  const auto at = [](Phase phase) { return std::size_t(phase); };
  const auto seconds = [](std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
  };
  report::PhaseSeconds result = team_->first().clock().seconds();
  const auto& times = group_->sharing(0).times();
  const double updating = seconds(times.updating);
  result[at(Phase::kBackward)] -= seconds(times.early);
  result[at(Phase::kUpdate)] = updating;
  result[at(Phase::kExchange)] = std::max(0.0, seconds(times.early) + seconds(times.late) - updating);
  return result;
}

std::string Trainer::worker_summary() {
  std::vector<std::int64_t> lanes;
  for (int t = 0; t < group_->threads(); ++t)
    for (std::int64_t lane = group_->carrier(t).first_lane; lane < group_->carrier(t).end_lane; ++lane)
      lanes.push_back(lane);
  const report::WorkerSummary worker{.rank = world_.rank(),
                                     .pid = getpid(),
                                     .host = host_name(),
                                     .lanes = lanes,
                                     .parameters = std::int64_t(group_->parameters_held()),
                                     .bytes_held = group_->bytes_held(),
                                     .peak_rss_bytes = report::peak_rss_bytes(),
                                     .phase_seconds = phases()};
  return report::to_json(worker).dump();
}

report::Summary Trainer::summarise(double wall_seconds) {
  const std::vector<std::string> workers = exchange_texts(world_.communicator(), worker_summary());
  report::Summary summary;
  for (const std::string& text : workers)
    summary.per_worker.push_back(report::worker_summary_from_json(nlohmann::json::parse(text)));
  summary.status = status_;
  summary.steps = progress_.step;
  summary.epochs = progress_.epoch;
  summary.samples = progress_.samples;
  if (progress_.step > 0) summary.final_train_loss = progress_.last_loss;
  if (progress_.evaluated) {
    summary.test_accuracy = progress_.test_accuracy;
    summary.test_loss = progress_.test_loss;
    summary.best_test_accuracy = progress_.best_accuracy;
  }
  summary.wall_seconds = wall_seconds;
  summary.samples_per_second = double(progress_.samples - samples_before_) / std::max(1e-9, wall_seconds);
  summary.step_seconds_median = recorder_ ? recorder_->step_seconds_median() : 0;
  summary.workers = world_.size();
  summary.lanes = job_.config.parallel.lanes;
  summary.threads = job_.config.parallel.threads;
  for (const auto& parameter : job_.network->parameters()) summary.parameters += parameter.numel();
  summary.weights_sha256 = weights_sha256(*job_.network);
  for (const auto& worker : summary.per_worker)
    summary.peak_rss_bytes = std::max(summary.peak_rss_bytes, worker.peak_rss_bytes);
  const Reproducibility same_bits = reproducibility(job_.config, world_.hosts());
  summary.reproducible = same_bits.holds;
  summary.reproducible_note = same_bits.note;
  summary.algorithm = world_.hosts() == 1 ? "shared memory" : job_.config.parallel.algorithm;
  summary.overlap = job_.config.parallel.overlap;
  const auto& times = group_->sharing(0).times();
  const auto all = std::chrono::duration<double>(times.early + times.late).count();
  summary.hidden_exchange_share = all > 0 ? std::chrono::duration<double>(times.early).count() / all : 0;
  summary.isa = options_.isa;
  summary.libtorch_version = TORCH_VERSION;
  summary.mpi_version = world_.mpi_version();
  summary.phase_seconds = phases();
  return summary;
}

void Trainer::write_trace() {
  if (!trace_) return;
  const std::vector<std::string> all = exchange_texts(world_.communicator(), trace_->json());
  if (is_root()) report::Trace::write_merged(job_.config.report.trace, all);
}

}  // namespace distbelief::train
