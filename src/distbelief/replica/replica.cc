#include "distbelief/replica/replica.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "distbelief/base/error.h"
#include "distbelief/base/host_name.h"
#include "distbelief/base/parallel_defaults.h"
#include "distbelief/mesh/lane_team.h"
#include "distbelief/mesh/pipeline_team.h"
#include "distbelief/model/device.h"
#include "distbelief/report/memory.h"

namespace distbelief::replica {
namespace {

data::EpochPlan epochs_of(const run::PreparedJob& job) {
  return {job.data.train->size(), std::uint64_t(job.config.train.batch_size),
          std::uint64_t(job.config.parallel.lanes)};
}

PartitionOptions partition_options(const run::PreparedJob& job, const ReplicaOptions& options) {
  return {.epochs = epochs_of(job),
          .lanes = options.terms.lanes,
          .sub_network = options.terms.sub_network,
          .measured_costs = options.run_dir / "blocks.json"};
}

// Each parameter's factor of the learning rate, by the backward that moves it.
std::vector<double> lr_factors(const tasks::Task& task,
                               const std::vector<compute::Layout::Parameter>& parameters) {
  std::vector<double> factors(parameters.size(), 1.0);
  for (const tasks::Backward& backward : task.backwards())
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].name.starts_with(backward.moves)) factors[i] = backward.lr_factor;
  return factors;
}

void require_rows_for_tables(const tasks::Task& task, const ReplicaTerms& terms, const std::string& model) {
  if (task.tables().empty() || terms.rows != nullptr) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("the rows of model {} lie on parameter servers: set parallel.sync = "
                          "\"parameter_server\" and parallel.mode = \"async\"",
                          model));
}

}  // namespace

class Replica::StepTrace final : public mesh::Observer {
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

Replica::Replica(World& world, run::PreparedJob& job, ReplicaOptions options)
    : world_(world),
      job_(job),
      options_(std::move(options)),
      partition_(world, job, partition_options(job, options_)),
      task_(tasks::make_task(job.config, job.data.train->spec(), partition_.tensor_group(),
                             options_.terms.rows)) {
  if (options_.terms.around_task) task_ = options_.terms.around_task(std::move(task_));
  require_rows_for_tables(*task_, options_.terms, job_.config.model.name);
  build_groups();
  feed_ = std::make_unique<LaneFeed>(
      job_, LaneFeedOptions{
                .epochs = epochs_of(job_), .order = options_.terms.feed, .rank = world_.name(world_.rank())});
}

Replica::~Replica() = default;

mesh::AllreduceGroup::Options Replica::group_settings(const mesh::Stage& stage) const {
  mesh::AllreduceGroup::Options options = run::group_options(job_.config);
  options.lane_values = stage.outline->buffers + mesh::kNoteFloats;
  options.lanes_of_workers = lanes_of_workers_;
  options.lr_factors = lr_factors(*task_, stage.parameters);
  if (options_.terms.update == ReplicaTerms::Update::kCollectGradient)
    options.optimizer.name = compute::kCollectGradient;
  options.part = options_.terms.lanes;
  return options;
}

mesh::Course Replica::course() const {
  const tasks::TaskEntry& task = tasks::find_task(tasks::task_name(job_.config, job_.data.train->spec()));
  return task.runs_often ? mesh::Course::kOften : mesh::Course::kOnce;
}

void Replica::build_groups() {
  for (std::size_t i = 0; i < stages().size(); ++i) {
    mesh::Stage& stage = stages()[i];
    mesh::AllreduceGroup::Options options = group_settings(stage);
    if (partition_.tensor_group())
      options.join_layers = [this, &stage](std::span<double> norms) {
        partition_.add_up_layers(stage, norms);
      };
    for (int t = 0; options_.trace && t <= options.threads; ++t) {
      options_.trace->name_thread(t, t < options.threads ? fmt::format("lanes {}", t) : "between hosts");
      observers_.push_back(std::make_unique<StepTrace>(*options_.trace, t));
      options.observers.push_back(observers_.back().get());
    }
    World& peers = partition_.peers_of(i);
    stage.group = std::make_unique<mesh::AllreduceGroup>(peers, stage.parameters, std::move(options));
    if (!stage.network)
      stage.network = make_network(stage, Weights::kInitial);
    else if (peers.local_rank() == 0)
      compute::copy_parameters(*stage.network, stage.group->layout(), stage.group->parameters());
    stage.group->barrier();
    stage.group->forget_gathered();
    if (!partition_.is_cut())
      stage.group->gather_blocks(mesh::gathered_spans(*stage.network, stage.group->layout(), course()));
  }
}

// Block by block, so that no process ever has all initial weights: each worker keeps of a block the part that
// it updates, or, on a host whose workers share the parameters, the first worker keeps them all.
std::shared_ptr<model::Network> Replica::make_network(const mesh::Stage& stage, Weights weights) {
  const mesh::AllreduceGroup& group = *stage.group;
  std::vector<compute::Span> kept;
  if (weights == Weights::kInitial && group.shares_out_parameters())
    kept = group.owned_spans();
  else if (weights == Weights::kInitial && partition_.peers().local_rank() == 0)
    kept = group.gathers_between_hosts() ? group.host_spans()
                                         : std::vector<compute::Span>{{0, group.layout().size()}};
  return std::make_shared<model::Network>(job_.blueprint, stage.outline->blocks, job_.config.train.seed,
                                          partition_.tensor_group(), [&](model::Network& network, int block) {
                                            compute::move_parameters(
                                                network.block(block), network, group.layout(),
                                                {.arena = group.parameters(), .owned = kept});
                                          });
}

// A first step comes to the same with or without it: a copy of the network touches neither weights nor
// running statistics nor randomness.
void Replica::warm_up() {
  if (options_.terms.sub_network >= 0) return;  // its input comes from another sub-network
  if (partition_.is_cut()) return;  // its blocks have run once, to find out what goes from stage to stage
  if (job_.config.parallel.zero == 3) return;  // there may be no room for a copy
  const auto network = model::build_model(job_.config.model, job_.shape, job_.config.train.seed,
                                          model::device_of(job_.config.train.device));
  data::Batch batch;
  const std::uint64_t size =
      std::min<std::uint64_t>(feed_->epochs().lane_range(0, 0).size(), job_.data.train->size());
  feed_->batches().eval_batch({0, std::max<std::uint64_t>(1, size)}, batch);
  for (int i = 0; i < 2; ++i)
    for (std::size_t b = 0; b < task_->backwards().size(); ++b)
      task_
          ->loss_sum(*network, tasks::prepared_for_test(*task_, tasks::as_tensors(batch), network->device()),
                     b)
          .backward();
}

void Replica::begin(const DataPosition& at, ReplicaHooks hooks) {
  hooks_ = std::move(hooks);
  build_team(at);
}

const data::Batch& Replica::next_batch(data::Loader& loader) {
  const data::Batch& batch = loader.next();
  if (hooks_.on_batch && stages()[0].index == 0 && stages()[0].leads_group) hooks_.on_batch(step_, batch);
  return batch;
}

std::unique_ptr<mesh::LaneRunner> Replica::make_runner(int thread, const DataPosition& at) {
  const mesh::Carrier& carrier = group().carrier(thread);
  data::Loader* loader = carrier.lanes.empty() ? nullptr : &feed_->add(carrier, at, carriers_on_host());
  std::shared_ptr<model::Network> network = stages()[0].network;
  if (thread > 0) {
    network = make_network(stages()[0], Weights::kPresent);
    compute::BufferSet from(*stages()[0].network), to(*network);
    std::vector<float> values(from.size());
    from.read(values);
    to.write(values);
  }
  std::unique_ptr<mesh::LaneGather> gather = mesh::make_gather(group(), *network, thread, course());
  return std::make_unique<mesh::LaneRunner>(mesh::LaneRunner::Options{
      .network = std::move(network),
      .layout = &group().layout(),
      .arena = group().parameters(),
      .gather = std::move(gather),
      .task = task_.get(),
      .rows = task_->tables().empty() ? nullptr : options_.terms.rows,
      .sharing = &group().sharing(thread),
      .next_batch = [this, loader]() -> const data::Batch& { return next_batch(*loader); },
      .slowness = hooks_.slowness ? [this] { return hooks_.slowness(step_); } : std::function<double()>(),
      .in_backward = hooks_.in_backward ? [this] { hooks_.in_backward(step_); } : std::function<void()>(),
      .lanes = carrier.lanes,
      .seed = job_.config.train.seed,
      .trace = options_.trace,
      .thread = thread});
}

std::unique_ptr<mesh::Team> Replica::make_lane_team(const DataPosition& at) {
  std::vector<std::unique_ptr<mesh::LaneRunner>> runners;
  for (int t = 0; t < group().threads(); ++t) runners.push_back(make_runner(t, at));
  return std::make_unique<mesh::LaneTeam>(std::move(runners),
                                          mesh::LaneTeam::Options{.abort = &group().abort(),
                                                                  .workers = &world_.communicator(),
                                                                  .task = task_.get(),
                                                                  .group = &group()});
}

std::unique_ptr<mesh::Team> Replica::make_pipeline_team(const DataPosition& at) {
  const mesh::Carrier& carrier = group().carrier(0);
  const bool reads =
      stages().front().index == 0 || stages().back().index + 1 == std::ssize(partition_.outline().stages);
  data::Loader* loader = reads ? &feed_->add(carrier, at, carriers_on_host()) : nullptr;
  return std::make_unique<mesh::PipelineTeam>(mesh::PipelineTeam::Options{
      .world = &world_,
      .stages = stages(),
      .outline = &partition_.outline(),
      .mesh = partition_.plan().mesh,
      .schedule = partition_.plan().schedule,
      .chunks = partition_.plan().chunks,
      .recompute = job_.config.parallel.recompute,
      .array_bytes = partition_.array_bytes(),
      .lanes = carrier.lanes,
      .task = task_.get(),
      .next_batch = [this, loader] { return tasks::as_tensors(next_batch(*loader)); },
      .in_backward = hooks_.in_backward ? [this] { hooks_.in_backward(step_); } : std::function<void()>(),
      .clip_norm = job_.config.train.clip_norm,
      .seed = job_.config.train.seed,
      .trace = options_.trace});
}

void Replica::build_team(const DataPosition& at) {
  team_ = partition_.is_cut() ? make_pipeline_team(at) : make_lane_team(at);
  const std::vector<std::int64_t> lanes = lanes_of_workers();
  speaker_ =
      int(std::find_if(lanes.begin(), lanes.end(), [](std::int64_t n) { return n > 0; }) - lanes.begin());
  if (options_.phase) team_->clock().show_in(options_.phase);
}

mesh::StepOutcome Replica::step(const mesh::StepPlan& plan, const mesh::LaneNotes& wishes) {
  step_ = plan.step;
  const mesh::StepOutcome outcome = team_->step(plan, wishes);
  if (options_.terms.update == ReplicaTerms::Update::kOptimizer) team_->share_changed();
  return outcome;
}

void Replica::share_changed() { team_->share_changed(); }

int Replica::carriers_on_host() const { return world_.local_size() * group().threads(); }

void Replica::set_statistics(
    const std::function<void(std::size_t stage, compute::BufferSet& buffers)>& write) {
  for (std::size_t stage = 0; stage < stages().size(); ++stage) {
    if (!team_) {
      compute::BufferSet buffers(*stages()[stage].network);
      write(stage, buffers);
    }
    for (int thread = 0; team_ && thread < group().threads(); ++thread)
      write(stage, team_->buffers(int(stage), thread));
  }
}

tasks::Evaluation Replica::evaluate(const tasks::ReadChunk& read) {
  return team_->evaluate(read, job_.data.test->size());
}

void Replica::abort(const char* reason) {
  for (const mesh::Stage& stage : stages()) stage.group->abort().set(world_.rank(), reason);
  if (partition_.is_cut()) world_.abort(reason);
}

std::vector<std::int64_t> Replica::own_lanes() const {
  std::vector<std::int64_t> lanes;
  for (int t = 0; t < group().threads(); ++t)
    lanes.insert(lanes.end(), group().carrier(t).lanes.begin(), group().carrier(t).lanes.end());
  return lanes;
}

// The clock's view, with the exchange's own work during backward taken out of it.
report::PhaseSeconds Replica::phases() const {
  using report::Phase;
  const auto at = [](Phase phase) { return std::size_t(phase); };
  const auto seconds = [](std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
  };
  report::PhaseSeconds result = team_->clock().seconds();
  std::chrono::nanoseconds early{}, late{}, updating{};
  for (const mesh::Stage& stage : partition_.stages()) {
    early += stage.group->sharing(0).times().early;
    late += stage.group->sharing(0).times().late;
    updating += stage.group->sharing(0).times().updating;
  }
  const double waited = std::max(0.0, result[at(Phase::kExchange)] - seconds(late));  // for other stages
  result[at(Phase::kBackward)] -= seconds(early);
  result[at(Phase::kUpdate)] = seconds(updating);
  result[at(Phase::kExchange)] = waited + std::max(0.0, seconds(early + late - updating));
  for (std::size_t i = 0; phases_before_ && i < result.size(); ++i) result[i] += (*phases_before_)[i];
  return result;
}

report::WorkerSummary Replica::summary() const {
  report::WorkerSummary worker;
  worker.rank = world_.rank();
  worker.pid = getpid();
  worker.host = host_name();
  worker.lanes = own_lanes();
  worker.peak_rss_bytes = report::peak_rss_bytes();
  worker.phase_seconds = phases();
  for (const mesh::Stage& stage : partition_.stages()) {
    worker.stages.push_back(stage.index);
    worker.parameters += std::int64_t(stage.group->parameters_held());
    worker.bytes_held += stage.group->bytes_held();
    if (stage.group->shares_out_parameters())
      worker.bytes_held +=
          std::size_t(stage.group->threads()) * sizeof(float) *
          compute::GatheredArena::most_held(mesh::block_spans(*stage.network, stage.group->layout()));
  }
  return worker;
}

std::vector<std::int64_t> Replica::lanes_of_workers() const {
  std::vector<std::int64_t> lanes(std::size_t(world_.size()));
  const auto threads = std::size_t(group().threads());
  for (int worker = 0; worker < world_.size(); ++worker) {
    const auto copy = std::size_t(mesh::place_of(partition_.plan().mesh, worker).data);
    for (std::size_t t = 0; t < threads; ++t)
      lanes[std::size_t(worker)] += std::ssize(group().plan().carriers[copy * threads + t].lanes);
  }
  return lanes;
}

// The old segment and the new one are there together for a moment. Collective: all workers get the same
// answer.
bool Replica::has_room_to_rebuild() {
  const std::vector<compute::Layout::Parameter>& parameters = partition_.outline().parameters;
  const mesh::AllreduceGroup::Options settings = group_settings(stages()[0]);
  std::int64_t hosts_without = 0;
  if (world_.local_rank() == 0) try {
      comm::require_shared_memory({.bytes = mesh::AllreduceGroup::bytes_needed(
                                       parameters, settings, world_.workers_per_host(), world_.host()),
                                   .purpose = "moving lanes"});
      if (!settings.state_dir.empty())
        comm::require_state_room(settings.state_dir, mesh::AllreduceGroup::state_bytes(parameters, settings));
    } catch (const Error& error) {
      spdlog::warn("no room to move lanes: {}", error.what());
      hosts_without = 1;
    }
  world_.communicator().allreduce(comm::view(&hosts_without, 1), comm::ReduceOp::kSum);
  return hosts_without == 0;
}

bool Replica::carry(std::vector<std::int64_t> lanes_of_workers, std::int64_t threads,
                    const DataPosition& at) {
  std::swap(lanes_of_workers, lanes_of_workers_);
  std::swap(threads, job_.config.parallel.threads);
  if (has_room_to_rebuild()) {
    rebuild(at);
    return true;
  }
  std::swap(lanes_of_workers, lanes_of_workers_);
  std::swap(threads, job_.config.parallel.threads);
  return false;
}

// Everything that knows where lanes lie is made anew around the same weights, state and position.
void Replica::rebuild(const DataPosition& at) {
  phases_before_ = phases();
  team_.reset();
  feed_->clear();
  observers_.clear();
  const std::unique_ptr<mesh::AllreduceGroup> old = std::move(stages()[0].group);
  // The network's parameters are views of memory that goes: they lie in the old group from here on.
  compute::Replica(stages()[0].network, old->layout(), old->parameters());
  build_groups();
  group().set_update_counts(old->sharing(0).update_counts());
  for (int i = 0; world_.local_rank() == 0 && i < int(group().state_names().size()); ++i)
    for (const compute::Span& span : group().host_spans())
      std::memcpy(group().state(i) + span.begin, old->state(i) + span.begin, span.size() * sizeof(float));
  group().barrier();
  build_team(at);
  group().barrier();
}

}  // namespace distbelief::replica
