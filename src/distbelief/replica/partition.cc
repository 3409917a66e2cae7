#include "distbelief/replica/partition.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "distbelief/base/error.h"
#include "distbelief/base/memory_limit.h"
#include "distbelief/compute/optimizer.h"
#include "distbelief/mesh/cuts.h"
#include "distbelief/mesh/tensor_sums.h"
#include "distbelief/planner/block_costs.h"
#include "distbelief/report/memory.h"
#include "distbelief/tasks/evaluation.h"

namespace distbelief::replica {
namespace {

// The memory that a stage may take: this worker's even share of the host's, less what the process has
// already.
mesh::CutLimits limits_of(const Config& config, const run::PipelinePlan& plan, const World& world) {
  const std::uint64_t each = memory_limit() / std::uint64_t(world.local_size()), own = report::rss_bytes();
  if (each <= own) return {};
  const auto states = compute::make_optimizer(config.train.optimizer)->state_names().size();
  return {.memory_bytes = std::size_t(each - own) / std::size_t(plan.chunks),
          .bytes_per_parameter_byte = 2.0 + double(states),  // with gradients
          .lanes_alive = config.parallel.recompute ? 1 : plan.mesh.pipeline};
}

// The limits are estimates: a run that they leave no cuts for may work all the same.
mesh::Cuts cuts_within(const std::vector<mesh::BlockCost>& costs, int stages, const mesh::CutLimits& limits) {
  try {
    return mesh::choose_cuts(costs, stages, limits);
  } catch (const Error& error) {
    spdlog::warn("no cuts seem to fit this host's memory: {}", error.message());
    return mesh::choose_cuts(costs, stages, {});
  }
}

// A replica may carry only a part of the job's lanes.
Config with_own_lanes(Config config, const std::optional<TreeNode>& lanes) {
  if (lanes) config.parallel.lanes = lanes->end - lanes->begin;
  return config;
}

void require_even_hosts(const Config& config, const mesh::Mesh& mesh, const World& world) {
  if (config.parallel.zero == 1 || mesh::places_lie_alike(mesh, world.workers_per_host())) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("parallel.zero {} deals lanes in turns inside each host, but hosts with {} workers "
                          "share replicas of {} unevenly; give each host whole replicas, or set "
                          "parallel.zero = 1",
                          config.parallel.zero, fmt::join(world.workers_per_host(), ", "),
                          mesh.pipeline * mesh.tensor),
              {.key = "parallel.zero"});
}

}  // namespace

Partition::Partition(World& world, run::PreparedJob& job, const PartitionOptions& options)
    : world_(world),
      job_(job),
      plan_(run::pipeline_plan(with_own_lanes(job.config, options.lanes), world.size())) {
  if (!plan_.reason.empty()) spdlog::warn("{}", plan_.reason);
  require_even_hosts(job.config, plan_.mesh, world);
  if (!is_cut()) {
    hold_whole(options);
    return;
  }
  const mesh::MeshPlace own = mesh::place_of(plan_.mesh, world_.rank());
  split_worlds(own);
  outline_ = mesh::outline_of(job_.blueprint, choose_stage_ends(options, plan_.mesh.pipeline * plan_.chunks),
                              job_.config.train.seed);
  if (tensor_group_)
    run::keep_own_columns(job_, *tensor_group_);  // whole blocks were measured with whole samples
  hold_stages(options, own);
}

void Partition::hold_whole(const PartitionOptions& options) {
  std::shared_ptr<model::Network> network = job_.network;
  if (options.sub_network >= 0)
    network = std::make_shared<model::Network>(
        job_.blueprint, job_.sub_networks[std::size_t(options.sub_network)].blocks, job_.config.train.seed);
  outline_ = network ? mesh::outline_of(*network) : run::outline_of(job_);
  stages_.push_back(mesh::make_stage(0, outline_.stages[0], std::move(network), nullptr));
}

void Partition::split_worlds(const mesh::MeshPlace& own) {
  const mesh::Mesh& mesh = plan_.mesh;
  const int same_stages = own.pipeline * mesh.tensor + own.tensor;
  peers_.emplace(world_.split(same_stages));
  for (int chunk = 1; chunk < plan_.chunks; ++chunk) further_peers_.push_back(world_.split(same_stages));
  if (mesh.tensor == 1) return;
  tensor_world_.emplace(world_.split(own.data * mesh.pipeline + own.pipeline));
  tensor_group_ = mesh::make_tensor_group(*tensor_world_, world_, run::input_of(job_.config.parallel));
}

void Partition::hold_stages(const PartitionOptions& options, const mesh::MeshPlace& own) {
  const mesh::Mesh& mesh = plan_.mesh;
  for (int chunk = 0; chunk < plan_.chunks; ++chunk) {
    const int index = chunk * mesh.pipeline + own.pipeline;
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
      std::max<std::uint64_t>(options.epochs.lane_range(0, 0).size(), tasks::kEvaluationChunk);
  Shape shape = job_.data.train->spec().input_shape;  // of this worker
  shape.insert(shape.begin(), 1);                     // one sample tells how large the others' arrays are
  array_bytes_ =
      samples * mesh::largest_array(stages_, mesh, world_,
                                    torch::zeros(shape, job_.shape.tokens ? torch::kInt64 : torch::kFloat32));
  if (job_.config.parallel.zero == 3)  // made anew where parameters are shared out
    for (mesh::Stage& stage : stages_) stage.network.reset();
}

// The first worker measures for all. Cuts leave the bits alone, so another measurement may choose others.
std::vector<int> Partition::choose_stage_ends(const PartitionOptions& options, int stages) {
  if (stages == 1) return {int(job_.blueprint.size())};
  return mesh::agree_on_ends(world_, stages, [&] {
    const auto lane_samples = std::int64_t(options.epochs.lane_range(0, 0).size());
    const std::vector<mesh::BlockCost> costs =
        planner::measure_blocks(job_, {.samples = lane_samples, .kept_in = options.measured_costs});
    const std::vector<int> firsts(job_.config.parallel.cuts.begin(), job_.config.parallel.cuts.end());
    const bool given = std::ssize(firsts) + 1 == stages;
    mesh::Cuts cuts = given ? mesh::given_cuts(firsts, costs, stages, {})
                            : cuts_within(costs, stages, limits_of(job_.config, plan_, world_));
    spdlog::info("cuts: {}", cuts.reason);
    return cuts;
  });
}

// Every layer that is not sliced is whole on each worker of the group.
void Partition::add_up_layers(const mesh::Stage& stage, std::span<double> norms) {
  std::vector<double> sliced(norms.begin(), norms.end());
  for (std::size_t i = 0; i < sliced.size(); ++i)
    if (stage.slices[i].is_whole()) sliced[i] = 0;
  tensor_world_->communicator().allreduce(comm::view(sliced.data(), sliced.size()), comm::ReduceOp::kSum);
  for (std::size_t i = 0; i < sliced.size(); ++i)
    if (!stage.slices[i].is_whole()) norms[i] = sliced[i];
}

}  // namespace distbelief::replica
