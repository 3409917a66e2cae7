#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/base/parallel_defaults.h"
#include "distbelief/mesh/lane_team.h"
#include "distbelief/model/device.h"
#include "distbelief/run/state_file.h"
#include "distbelief/train/trainer.h"

// How a trainer is made, from nothing or from saved state, and remade: the part of Trainer around the loop.
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

// Of each parameter, by the backward that moves it.
std::vector<double> lr_factors(const tasks::Task& task,
                               const std::vector<compute::Layout::Parameter>& parameters) {
  std::vector<double> factors(parameters.size(), 1.0);
  for (const tasks::Backward& backward : task.backwards())
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].name.starts_with(backward.moves)) factors[i] = backward.lr_factor;
  return factors;
}

}  // namespace

// Puts what the strategy does into the trace.
class Trainer::StepTrace final : public mesh::Observer {
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

Trainer::Trainer(World& world, run::PreparedJob job, Options options)
    : world_(world),
      job_(std::move(job)),
      options_(std::move(options)),
      plan_{job_.data.train->size(), std::uint64_t(job_.config.train.batch_size),
            std::uint64_t(job_.config.parallel.lanes)},
      checkpointer_(world, options_.run_dir, std::size_t(job_.config.checkpoint.keep),
                    run::build_name(options_.isa)),
      lane_samples_(std::size_t(job_.config.parallel.lanes)),
      last_save_(Clock::now()) {
  if (!job_.config.report.trace.empty()) {
    world_.communicator().barrier();  // the moment that all hosts call zero
    trace_ = std::make_unique<report::Trace>(
        report::Trace::Options{.rank = world_.rank(),
                               .process_name = fmt::format("worker {}", world_.rank()),
                               .origin = Clock::now()});
  }
  lay_out();
  train_batches_.emplace(*job_.data.train, batch_options(job_.config));
  test_batches_.emplace(*job_.data.test, test_options(job_.config));
  test_reader_.emplace(*test_batches_,
                       data::TimedReader::Options{.deadline = deadline_of(job_.config.parallel),
                                                  .rank = world_.name(world_.rank())});
  task_ = tasks::make_task(job_.config, job_.data.train->spec(), tensor_group_.get(),
                           options_.link ? options_.link->rows() : nullptr);
  if (options_.around_task) task_ = options_.around_task(std::move(task_));
  require_servers_for_tables();
  build_groups();
  hold_whole();
}

Trainer::~Trainer() = default;

// What would come out of a first step is the same with or without it: weights, running statistics and
// randomness are not touched by what a copy of the network does.
void Trainer::warm_up() {
  if (options_.sub_network >= 0) return;  // its input comes from another
  if (is_cut()) return;  // its blocks have already run once, to find out what goes from stage to stage
  if (job_.config.parallel.zero == 3) return;  // there may be no room for a copy
  const auto network = model::build_model(job_.config.model, job_.shape, job_.config.train.seed,
                                          model::device_of(job_.config.train.device));
  data::Batch batch;
  const std::uint64_t size = std::min<std::uint64_t>(plan_.lane_range(0, 0).size(), job_.data.train->size());
  train_batches_->eval_batch({0, std::max<std::uint64_t>(1, size)}, batch);
  for (int i = 0; i < 2; ++i)
    for (std::size_t b = 0; b < task_->backwards().size(); ++b)
      task_
          ->loss_sum(*network, tasks::prepared_for_test(*task_, tasks::as_tensors(batch), network->device()),
                     b)
          .backward();
}

void Trainer::open_recorder() {
  if (is_root())
    recorder_ = std::make_unique<run::Recorder>(run::Recorder::Options{
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
  progress_.steps_per_epoch = job_.steps_per_epoch();
  std::optional<run::Snapshotter::Restored> snapshot;
  if (snapshotter_)
    snapshot = snapshotter_->open(outline_.parameters, group_settings(stages_[0]), outline_.buffers);
  if (!start_.resume) return;
  const std::int64_t saved = newest_checkpoint(world_, options_.run_dir);
  if (snapshot && snapshot->progress.step >= saved) {
    snapshotter_->restore(stages_, peers());
    for (const mesh::Stage& stage : stages_) {
      compute::BufferSet buffers(*stage.network);
      std::vector<float> values(buffers.size());
      mesh::copy_runs(mesh::buffer_runs(stage, mesh::Which::kAll), snapshot->buffers.data(), values.data());
      buffers.write(values);
    }
    begin_at(snapshot->progress, snapshot->update_counts, snapshot->build);
  } else if (saved >= 0) {
    const run::Checkpointer::Restored restored = checkpointer_.open(kept(), peers());
    for (const mesh::Stage& stage : kept()) {
      if (stage.group->gathers_between_hosts())
        stage.group->barrier();  // each host has read its own
      else
        stage.group->spread_state();
      compute::BufferSet buffers(*stage.network);
      std::vector<float> values(buffers.size());
      buffers.read(values);
      peers().communicator().broadcast(comm::view(values.data(), values.size()), 0);
      buffers.write(values);
    }
    take_own_part();
    begin_at(restored.progress, restored.update_counts, restored.build);
    last_saved_step_ = progress_.step;
  }
  faults_->pass("mid-restart", progress_.step);
}

void Trainer::note_tensor() {
  const std::int64_t now = mesh_plan_.mesh.tensor;
  if (progress_.step == 0 || progress_.tensor == 0) progress_.tensor = now;
  if (progress_.tensor != now) progress_.tensor = run::kTensorChanged;
}

// Later generations add in tree order again, or have one build: what was lost before stays so.
void Trainer::note_bits() {
  const run::Reproducibility now = run::reproducibility(job_.config, world_.hosts(), progress_.tensor);
  if (!now.holds) lose_bits(now.note);
}

// Unless no step is left that could have others.
void Trainer::lose_bits(const std::string& why) {
  const bool goes_on = !stopped_early_ && progress_.step < job_.total_steps();
  if (goes_on && progress_.bits_lost.empty()) progress_.bits_lost = why;
}

void Trainer::begin_at(const run::RunProgress& progress, const std::vector<std::int64_t>& update_counts,
                       const std::string& build) {
  run::require_same_epochs(progress, job_.steps_per_epoch());
  progress_ = progress;
  progress_.steps_per_epoch = job_.steps_per_epoch();  // which an earlier version did not note
  for (const mesh::Stage& stage : stages_) {
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

mesh::AllreduceGroup::Options Trainer::group_settings(const mesh::Stage& stage) const {
  mesh::AllreduceGroup::Options options = run::group_options(job_.config);
  options.lane_values = stage.outline->buffers + mesh::kNoteFloats;
  options.lanes_of_workers = lanes_of_workers_;
  options.lr_factors = lr_factors(*task_, stage.parameters);
  if (options_.link) options.optimizer.name = compute::kCollectGradient;
  if (options_.link && options_.link->is_synchronous()) options.part = options_.link->lanes();
  return options;
}

void Trainer::build_groups() {
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    mesh::Stage& stage = stages_[i];
    mesh::AllreduceGroup::Options options = group_settings(stage);
    if (tensor_group_)
      options.join_layers = [this, &stage](std::span<double> norms) { add_up_layers(stage, norms); };
    for (int t = 0; trace_ && t <= options.threads; ++t) {
      trace_->name_thread(t, t < options.threads ? fmt::format("lanes {}", t) : "between hosts");
      observers_.push_back(std::make_unique<StepTrace>(*trace_, t));
      options.observers.push_back(observers_.back().get());
    }
    stage.group = std::make_unique<mesh::AllreduceGroup>(i == 0 ? peers() : further_peers_[i - 1],
                                                         stage.parameters, std::move(options));
    if (!stage.network)
      stage.network = make_network(stage, Weights::kInitial);
    else if (peers().local_rank() == 0)
      compute::copy_parameters(*stage.network, stage.group->layout(), stage.group->parameters());
    stage.group->barrier();
    stage.group->forget_gathered();
    if (!is_cut()) stage.group->gather_blocks(mesh::block_spans(*stage.network, stage.group->layout()));
  }
}

// Block by block, so that no process ever has all initial weights: each keeps of a block what it updates, or
// on a host whose workers share the parameters the first keeps them.
std::shared_ptr<model::Network> Trainer::make_network(const mesh::Stage& stage, Weights weights) {
  const mesh::AllreduceGroup& group = *stage.group;
  std::vector<compute::Span> kept;
  if (weights == Weights::kInitial && group.shares_out_parameters())
    kept = group.owned_spans();
  else if (weights == Weights::kInitial && peers().local_rank() == 0)
    kept = group.gathers_between_hosts() ? group.host_spans()
                                         : std::vector<compute::Span>{{0, group.layout().size()}};
  return std::make_shared<model::Network>(job_.blueprint, stage.outline->blocks, job_.config.train.seed,
                                          tensor_group_.get(), [&](model::Network& network, int block) {
                                            compute::move_parameters(
                                                network.block(block), network, group.layout(),
                                                {.arena = group.parameters(), .owned = kept});
                                          });
}

const data::Batch& Trainer::next_batch(data::Loader& loader) {
  const data::Batch& batch = loader.next();
  if (audit_ && stages_[0].index == 0 && stages_[0].leads_group) audit_->add(progress_.step, batch);
  return batch;
}

data::Loader& Trainer::add_loader(const mesh::Carrier& carrier) {
  loaders_.push_back(std::make_unique<data::Loader>(
      *train_batches_,
      data::Loader::Options{.plan = plan_,
                            .seed = job_.config.train.seed,
                            .arrangement = job_.config.data.order == "streams" ? data::Arrangement::kStreams
                                                                               : data::Arrangement::kShuffled,
                            .first_lane = std::uint64_t(carrier.first_lane),
                            .end_lane = std::uint64_t(carrier.end_lane),
                            .lanes = {carrier.lanes.begin(), carrier.lanes.end()},
                            .epoch = std::uint64_t(progress_.epoch),
                            .step = std::uint64_t(progress_.step_in_epoch),
                            .threads = int(job_.config.data.loader_threads),
                            .prefetch = int(job_.config.data.prefetch),
                            .is_told = takes_own_steps(),
                            .own_below = data::own_below(world_.local_size() * group().threads()),
                            .deadline = deadline_of(job_.config.parallel),
                            .rank = world_.name(world_.rank())}));
  return *loaders_.back();
}

std::unique_ptr<mesh::LaneRunner> Trainer::make_runner(int thread) {
  const mesh::Carrier& carrier = group().carrier(thread);
  const bool has_lanes = !carrier.lanes.empty();
  data::Loader* loader = has_lanes ? &add_loader(carrier) : nullptr;
  std::shared_ptr<model::Network> network = stages_[0].network;
  if (thread > 0) {
    network = make_network(stages_[0], Weights::kPresent);
    compute::BufferSet from(*stages_[0].network), to(*network);
    std::vector<float> values(from.size());
    from.read(values);
    to.write(values);
  }
  std::unique_ptr<mesh::LaneGather> gather = mesh::make_gather(group(), *network, thread);
  return std::make_unique<mesh::LaneRunner>(mesh::LaneRunner::Options{
      .network = std::move(network),
      .layout = &group().layout(),
      .arena = group().parameters(),
      .gather = std::move(gather),
      .task = task_.get(),
      .rows = options_.link && !task_->tables().empty() ? options_.link->rows() : nullptr,
      .sharing = &group().sharing(thread),
      .next_batch = [this, loader]() -> const data::Batch& { return next_batch(*loader); },
      .slowness = options_.faults.empty() ? std::function<double()>()
                                          : [this] { return faults_->slowness(progress_.step); },
      .in_backward = options_.faults.empty() ? std::function<void()>()
                                             : [this] { faults_->pass("mid-bucket", progress_.step); },
      .lanes = carrier.lanes,
      .seed = job_.config.train.seed,
      .trace = trace_.get(),
      .thread = thread});
}

void Trainer::build_team() {
  if (is_cut()) {
    team_ = make_pipeline_team();
  } else {
    std::vector<std::unique_ptr<mesh::LaneRunner>> runners;
    for (int t = 0; t < group().threads(); ++t) runners.push_back(make_runner(t));
    team_ = std::make_unique<mesh::LaneTeam>(std::move(runners),
                                             mesh::LaneTeam::Options{.abort = &group().abort(),
                                                                     .workers = &world_.communicator(),
                                                                     .task = task_.get(),
                                                                     .group = &group(),
                                                                     .served = served_.get()});
  }
  speaker_ = workers_with_lanes()[0];
  if (!options_.vitals) return;
  team_->clock().show_in(&options_.vitals->phase);
  std::vector<std::int64_t> lanes;
  for (int t = 0; t < group().threads(); ++t)
    lanes.insert(lanes.end(), group().carrier(t).lanes.begin(), group().carrier(t).lanes.end());
  options_.vitals->lanes.show(std::move(lanes));
}

// Everything that knows where lanes lie is made anew around the same weights, state and position.
void Trainer::rebuild() {
  phases_before_ = phases();
  team_.reset();
  loaders_.clear();
  observers_.clear();
  const std::unique_ptr<mesh::AllreduceGroup> old = std::move(stages_[0].group);
  // The network's parameters are views of memory that goes: they lie in the old group from here on.
  compute::Replica(stages_[0].network, old->layout(), old->parameters());
  build_groups();
  group().set_update_counts(old->sharing(0).update_counts());
  for (int i = 0; world_.local_rank() == 0 && i < int(group().state_names().size()); ++i)
    for (const compute::Span& span : group().host_spans())
      std::memcpy(group().state(i) + span.begin, old->state(i) + span.begin, span.size() * sizeof(float));
  group().barrier();
  build_team();
  group().barrier();
}

}  // namespace distbelief::train
