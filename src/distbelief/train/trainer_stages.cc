#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include "distbelief/strategy/cuts.h"
#include "distbelief/train/block_costs.h"
#include "distbelief/train/pipeline_team.h"
#include "distbelief/train/trainer.h"

// How the network is cut over the workers: the part of Trainer that knows of stages.
namespace distbelief::train {

void Trainer::lay_out() {
  mesh_plan_ = pipeline_plan(job_.config, world_.size());
  if (!mesh_plan_.reason.empty()) spdlog::warn("{}", mesh_plan_.reason);
  if (!is_cut()) {
    if (!job_.network)
      job_.network = model::build_model(job_.config.model, job_.shape, job_.config.train.seed);
    outline_ = outline_of(*job_.network);
    stages_.push_back(
        {.index = 0, .outline = &outline_.stages[0], .network = job_.network, .group = nullptr});
    return;
  }
  const int pipeline = mesh_plan_.mesh.pipeline;
  const int place = strategy::place_of(mesh_plan_.mesh, world_.rank()).pipeline;
  peers_.emplace(world_.split(place));
  outline_ =
      outline_of(job_.blueprint, choose_stage_ends(pipeline * mesh_plan_.chunks), job_.config.train.seed);
  for (int chunk = 0; chunk < mesh_plan_.chunks; ++chunk) {
    const int index = chunk * pipeline + place;
    const StageOutline& outline = outline_.stages[std::size_t(index)];
    stages_.push_back(
        {.index = index,
         .outline = &outline,
         .network = std::make_shared<model::Network>(job_.blueprint, outline.blocks, job_.config.train.seed),
         .group = nullptr});
    spdlog::info("stage {} of {}: blocks {} to {}", index, outline_.stages.size(), outline.blocks.begin,
                 outline.blocks.end - 1);
  }
  array_bytes_ = largest_array();
  checkpointer_.set_part(place, pipeline);
}

// The first worker measures for all. Cuts leave the bits alone, so another measurement may choose others.
std::vector<int> Trainer::choose_stage_ends(int stages) {
  std::vector<std::int64_t> ends(std::size_t(stages), 0);
  std::string failure;
  if (is_root()) try {
      const auto lane_samples = std::int64_t(plan_.lane_range(0, 0).size());
      const std::vector<strategy::BlockCost> costs =
          measure_blocks(job_, {.samples = lane_samples, .kept_in = options_.run_dir / "blocks.json"});
      const std::vector<int> firsts(job_.config.parallel.cuts.begin(), job_.config.parallel.cuts.end());
      const bool given = std::ssize(firsts) + 1 == stages;
      const strategy::Cuts cuts =
          given ? strategy::given_cuts(firsts, costs, stages, {}) : strategy::choose_cuts(costs, stages, {});
      spdlog::info("cuts: {}", cuts.reason);
      std::copy(cuts.ends.begin(), cuts.ends.end(), ends.begin());
    } catch (const Error& error) {
      failure = error.message();
    }
  failure = broadcast_text(world_.communicator(), failure, 0);
  if (!failure.empty()) throw Error(ErrorCode::kBadInput, failure);
  world_.communicator().broadcast(comm::view(ends.data(), ends.size()), 0);
  return {ends.begin(), ends.end()};
}

// What goes from stage to stage, found out by one sample of zeros that goes through all of them. Collective.
std::size_t Trainer::largest_array() {
  constexpr std::size_t kDimensions = 8;
  const torch::NoGradGuard no_grad;
  const std::uint64_t samples = std::max<std::uint64_t>(plan_.lane_range(0, 0).size(), kEvaluationChunk);
  Shape shape = job_.shape.input;
  shape.insert(shape.begin(), 1);
  bool tokens = job_.shape.tokens;
  std::size_t largest = 0;
  for (std::size_t s = 0; s + 1 < outline_.stages.size(); ++s) {
    const int owner = strategy::rank_at(
        mesh_plan_.mesh, {.data = 0, .pipeline = int(s) % mesh_plan_.mesh.pipeline, .tensor = 0});
    std::vector<std::int64_t> sizes(1 + kDimensions);
    if (world_.rank() == owner) {
      model::Network& network = *stages_[s / std::size_t(mesh_plan_.mesh.pipeline)].network;
      network.eval();
      const torch::Tensor output =
          network.forward(torch::zeros(shape, tokens ? torch::kInt64 : torch::kFloat32));
      network.train();
      sizes[0] = output.dim();
      std::copy(output.sizes().begin(), output.sizes().end(), sizes.begin() + 1);
    }
    world_.communicator().broadcast(comm::view(sizes.data(), sizes.size()), owner);
    shape.assign(sizes.begin() + 1, sizes.begin() + 1 + sizes[0]);
    tokens = false;
    largest = std::max(largest, std::size_t(element_count(shape)) * sizeof(float));
  }
  return samples * largest;
}

std::unique_ptr<Team> Trainer::make_pipeline_team() {
  const strategy::Carrier& carrier = group().carrier(0);
  const bool reads = stages_.front().index == 0 || stages_.back().index + 1 == std::ssize(outline_.stages);
  data::Loader* loader = reads ? &add_loader(carrier) : nullptr;
  return std::make_unique<PipelineTeam>(PipelineTeam::Options{
      .world = &world_,
      .stages = stages_,
      .outline = &outline_,
      .mesh = mesh_plan_.mesh,
      .schedule = mesh_plan_.schedule,
      .chunks = mesh_plan_.chunks,
      .recompute = job_.config.parallel.recompute,
      .array_bytes = array_bytes_,
      .first_lane = carrier.first_lane,
      .end_lane = carrier.end_lane,
      .task = task_.get(),
      .next_batch = [this, loader]() -> const data::Batch& { return next_batch(*loader); },
      .in_backward = options_.faults.empty() ? std::function<void()>()
                                             : [this] { faults_->pass("mid-bucket", progress_.step); },
      .clip_norm = job_.config.train.clip_norm,
      .seed = job_.config.train.seed,
      .trace = trace_.get()});
}

}  // namespace distbelief::train
