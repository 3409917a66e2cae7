#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <cstring>

#include "distbelief/base/error.h"
#include "distbelief/base/memory_limit.h"
#include "distbelief/compute/buffers.h"
#include "distbelief/compute/optimizer.h"
#include "distbelief/compute/replica.h"
#include "distbelief/mesh/cuts.h"
#include "distbelief/mesh/pipeline_team.h"
#include "distbelief/mesh/tensor_sums.h"
#include "distbelief/planner/block_costs.h"
#include "distbelief/report/memory.h"
#include "distbelief/train/trainer.h"

// How the network is cut over the workers: the part of Trainer that knows of stages.
namespace distbelief::train {
namespace {

run::Checkpointer::Holding holding_of(const Config& config, const World& peers) {
  return config.parallel.zero == 3 && peers.hosts() > 1 ? run::Checkpointer::Holding::kHosts
                                                        : run::Checkpointer::Holding::kAll;
}

// What a stage may take of its worker's even share of this host's memory, of which the process itself has
// some already.
mesh::CutLimits limits_of(const Config& config, const run::PipelinePlan& plan, const World& world) {
  const std::uint64_t each = memory_limit() / std::uint64_t(world.local_size()), own = report::rss_bytes();
  if (each <= own) return {};
  const auto states = compute::make_optimizer(config.train.optimizer)->state_names().size();
  return {.memory_bytes = std::size_t(each - own) / std::size_t(plan.chunks),
          .bytes_per_parameter_byte = 2.0 + double(states),  // with gradients
          .lanes_alive = config.parallel.recompute ? 1 : plan.mesh.pipeline};
}

// The limits are estimates: a run that they leave no cuts for may do all the same.
mesh::Cuts cuts_within(const std::vector<mesh::BlockCost>& costs, int stages, const mesh::CutLimits& limits) {
  try {
    return mesh::choose_cuts(costs, stages, limits);
  } catch (const Error& error) {
    spdlog::warn("no cuts seem to fit this host's memory: {}", error.message());
    return mesh::choose_cuts(costs, stages, {});
  }
}

// Of lanes that all replicas share in every step this one has a part.
Config with_own_lanes(Config config, const mesh::ParameterLink* link) {
  if (link && link->is_synchronous()) config.parallel.lanes = link->lanes().end - link->lanes().begin;
  return config;
}

}  // namespace

void Trainer::lay_out() {
  mesh_plan_ = run::pipeline_plan(with_own_lanes(job_.config, options_.link), world_.size());
  if (!mesh_plan_.reason.empty()) spdlog::warn("{}", mesh_plan_.reason);
  if (!is_cut()) {
    std::shared_ptr<model::Network> network = job_.network;
    if (options_.sub_network >= 0)
      network = std::make_shared<model::Network>(job_.blueprint,
                                                 job_.sub_networks[std::size_t(options_.sub_network)].blocks,
                                                 job_.config.train.seed);
    outline_ = network ? mesh::outline_of(*network) : outline_of(job_);
    stages_.push_back(mesh::make_stage(0, outline_.stages[0], std::move(network), nullptr));
    checkpointer_.set_parts(world_, nullptr, holding_of(job_.config, world_));
    return;
  }
  const mesh::Mesh& mesh = mesh_plan_.mesh;
  const int pipeline = mesh.pipeline;
  const mesh::MeshPlace own = mesh::place_of(mesh, world_.rank());
  const int place = own.pipeline;
  peers_.emplace(world_.split(place * mesh.tensor + own.tensor));
  for (int chunk = 1; chunk < mesh_plan_.chunks; ++chunk)
    further_peers_.push_back(world_.split(place * mesh.tensor + own.tensor));
  if (mesh.tensor > 1) {
    tensor_world_.emplace(world_.split(own.data * pipeline + place));
    tensor_group_ = mesh::make_tensor_group(*tensor_world_, world_, run::input_of(job_.config.parallel));
  }
  outline_ = mesh::outline_of(job_.blueprint, choose_stage_ends(pipeline * mesh_plan_.chunks),
                              job_.config.train.seed);
  if (tensor_group_)
    run::keep_own_columns(job_, *tensor_group_);  // whole blocks were measured with whole samples
  for (int chunk = 0; chunk < mesh_plan_.chunks; ++chunk) {
    const int index = chunk * pipeline + place;
    const mesh::StageOutline& outline = outline_.stages[std::size_t(index)];
    stages_.push_back(
        mesh::make_stage(index, outline,
                         std::make_shared<model::Network>(job_.blueprint, outline.blocks,
                                                          job_.config.train.seed, tensor_group_.get()),
                         tensor_group_.get()));
    spdlog::info("stage {} of {}: blocks {} to {}, part {} of {}", index, outline_.stages.size(),
                 outline.blocks.begin, outline.blocks.end - 1, own.tensor, mesh.tensor);
  }
  const std::uint64_t samples =
      std::max<std::uint64_t>(plan_.lane_range(0, 0).size(), tasks::kEvaluationChunk);
  Shape shape = job_.data.train->spec().input_shape;  // of this worker
  shape.insert(shape.begin(), 1);                     // one sample tells how large the others' arrays are
  array_bytes_ =
      samples * mesh::largest_array(stages_, mesh, world_,
                                    torch::zeros(shape, job_.shape.tokens ? torch::kInt64 : torch::kFloat32));
  if (job_.config.parallel.zero == 3)  // made anew where parameters are shared out
    for (mesh::Stage& stage : stages_) stage.network.reset();
  checkpointer_.set_parts(*peers_, tensor_world_ ? &*tensor_world_ : nullptr,
                          holding_of(job_.config, *peers_));
}

// A second copy of the parameters, which servers fill when it is to be validated or saved.
void Trainer::hold_whole() {
  if (options_.sub_network < 0) return;
  const model::BlockRange blocks = stages_[0].outline->blocks;
  spdlog::info("sub-network {} of {}: blocks {} to {}, {} parameters", options_.sub_network,
               job_.sub_networks.size(), blocks.begin, blocks.end - 1, group().layout().parameter_count());
  if (!leads()) return;
  whole_outline_ = mesh::outline_of(*job_.network);
  whole_.push_back(mesh::make_stage(0, whole_outline_.stages[0], job_.network, nullptr));
  mesh::Stage& whole = whole_[0];
  whole.group = std::make_unique<mesh::AllreduceGroup>(further_peers_.emplace_back(world_.split(0)),
                                                       whole.parameters, group_settings(whole));
  compute::copy_parameters(*whole.network, whole.group->layout(), whole.group->parameters());
  compute::Replica(whole.network, whole.group->layout(), whole.group->parameters());  // they lie there now
}

// What a checkpoint has of this worker's sub-network.
void Trainer::take_own_part() {
  if (whole_.empty()) return;
  const std::size_t last = stages_[0].parameters.size() - 1;  // it lies first; a leader has the first blocks
  std::memcpy(group().parameters(),
              whole_[0].group->parameters() + whole_[0].group->layout().entries()[last].offset,
              group().layout().size() * sizeof(float));
}

void Trainer::fetch_whole() {
  if (whole_.empty()) return;
  options_.link->fetch_whole();
  compute::BufferSet(*whole_[0].network).write(whole_statistics_);
}

tasks::Evaluation Trainer::validate() {
  const tasks::ReadChunk read = [this](data::Range range) -> const data::Batch& {
    return test_reader_->read(range, progress_.step);
  };
  if (whole_.empty()) return team_->evaluate(read, job_.data.test->size());
  fetch_whole();
  return tasks::evaluate(*whole_[0].network, *task_, read, job_.data.test->size(), world_.communicator());
}

// The first worker measures for all. Cuts leave the bits alone, so another measurement may choose others.
std::vector<int> Trainer::choose_stage_ends(int stages) {
  if (stages == 1) return {int(job_.blueprint.size())};
  return mesh::agree_on_ends(world_, stages, [&] {
    const auto lane_samples = std::int64_t(plan_.lane_range(0, 0).size());
    const std::vector<mesh::BlockCost> costs =
        planner::measure_blocks(job_, {.samples = lane_samples, .kept_in = options_.run_dir / "blocks.json"});
    const std::vector<int> firsts(job_.config.parallel.cuts.begin(), job_.config.parallel.cuts.end());
    const bool given = std::ssize(firsts) + 1 == stages;
    mesh::Cuts cuts = given ? mesh::given_cuts(firsts, costs, stages, {})
                            : cuts_within(costs, stages, limits_of(job_.config, mesh_plan_, world_));
    spdlog::info("cuts: {}", cuts.reason);
    return cuts;
  });
}

// The norms of a layer whose slices the tensor group holds. Every other layer is whole on all of it.
void Trainer::add_up_layers(const mesh::Stage& stage, std::span<double> norms) {
  std::vector<double> sliced(norms.begin(), norms.end());
  for (std::size_t i = 0; i < sliced.size(); ++i)
    if (stage.slices[i].is_whole()) sliced[i] = 0;
  tensor_world_->communicator().allreduce(comm::view(sliced.data(), sliced.size()), comm::ReduceOp::kSum);
  for (std::size_t i = 0; i < sliced.size(); ++i)
    if (!stage.slices[i].is_whole()) norms[i] = sliced[i];
}

std::unique_ptr<mesh::Team> Trainer::make_pipeline_team() {
  const mesh::Carrier& carrier = group().carrier(0);
  const bool reads = stages_.front().index == 0 || stages_.back().index + 1 == std::ssize(outline_.stages);
  data::Loader* loader = reads ? &add_loader(carrier) : nullptr;
  return std::make_unique<mesh::PipelineTeam>(mesh::PipelineTeam::Options{
      .world = &world_,
      .stages = stages_,
      .outline = &outline_,
      .mesh = mesh_plan_.mesh,
      .schedule = mesh_plan_.schedule,
      .chunks = mesh_plan_.chunks,
      .recompute = job_.config.parallel.recompute,
      .array_bytes = array_bytes_,
      .lanes = carrier.lanes,
      .task = task_.get(),
      .next_batch = [this, loader] { return tasks::as_tensors(next_batch(*loader)); },
      .in_backward = options_.faults.empty() ? std::function<void()>()
                                             : [this] { faults_->pass("mid-bucket", progress_.step); },
      .clip_norm = job_.config.train.clip_norm,
      .seed = job_.config.train.seed,
      .trace = trace_.get(),
      .served = served_.get()});
}

}  // namespace distbelief::train
