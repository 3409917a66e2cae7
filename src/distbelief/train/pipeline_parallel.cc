#include "distbelief/train/pipeline_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/base/json_text.h"
#include "distbelief/checkpoint/safetensors.h"
#include "distbelief/comm/texts.h"
#include "distbelief/compute/replica.h"
#include "distbelief/mesh/cuts.h"
#include "distbelief/mesh/pipeline_team.h"
#include "distbelief/planner/block_costs.h"
#include "distbelief/run/checkpointer.h"
#include "distbelief/run/state_file.h"
#include "distbelief/train/data_parallel.h"

namespace distbelief {
namespace {

using checkpoint::TensorView;
using mesh::Stage;
using Json = nlohmann::json;

// A module of a user's list.
class AnyBlock final : public model::Block {
 public:
  AnyBlock(const std::string& name, torch::nn::AnyModule module) : module_(std::move(module)) {
    register_module(name, module_.ptr());
  }
  torch::Tensor forward(torch::Tensor input) override { return module_.forward(std::move(input)); }

 private:
  torch::nn::AnyModule module_;
};

model::Blueprint blueprint_of(torch::nn::Sequential& model) {
  model::Blueprint blueprint;
  const auto children = model->named_children();
  for (std::size_t i = 0; i < model->size(); ++i)
    blueprint.push_back(
        {"", [name = children.keys()[i], module = *(model->begin() + std::ptrdiff_t(i))](
                 const model::BlockSite&) { return std::make_shared<AnyBlock>(name, module.clone()); }});
  return blueprint;
}

class OwnLoss final : public tasks::Task {
 public:
  explicit OwnLoss(PipelineParallel::Loss loss) : loss_(std::move(loss)) {}
  std::int64_t items_per_sample() const override { return 1; }
  torch::Tensor loss_sum(model::Network& network, const tasks::TensorBatch& batch,
                         std::size_t) const override {
    return loss_(network.forward(batch.input), batch.target) * double(batch.size);
  }
  tasks::ScoreShape score_shape() const override { return {}; }
  std::vector<tasks::Metric> metrics(const tasks::Tally&) const override { return {}; }
  tasks::Score score(model::Network&, const tasks::TensorBatch&) const override {
    throw Error(ErrorCode::kInternal, "a loss of one's own gives no score");
  }

 private:
  PipelineParallel::Loss loss_;
};

// How stages tell rank 0 what they hold, for the model file.
Json heads_of(const std::vector<TensorView>& tensors, std::size_t weights) {
  Json heads = Json::array();
  for (std::size_t i = 0; i < tensors.size(); ++i)
    heads.push_back({{"name", tensors[i].name},
                     {"type", int(tensors[i].type)},
                     {"shape", tensors[i].shape},
                     {"buffer", i >= weights}});
  return heads;
}

TensorView view_of(const Json& head) {
  return {head.at("name"), ElementType(head.at("type").get<int>()), head.at("shape").get<Shape>(), nullptr};
}

constexpr int kModelTag = 9;

void send_to_root(World& world, const TensorView& view) {
  world.communicator().send(comm::view(const_cast<std::byte*>(view.data), view.byte_count()), 0, kModelTag);
}

void receive_from(World& world, int owner, TensorView& view, std::vector<std::vector<std::byte>>& kept) {
  std::vector<std::byte>& bytes = kept.emplace_back(view.byte_count());
  world.communicator().receive(comm::view(bytes.data(), bytes.size()), owner, kModelTag);
  view.data = bytes.data();
}

std::string write_model(const std::filesystem::path& path, std::vector<TensorView> weights,
                        const std::vector<TensorView>& buffers) {
  const std::string hash = checkpoint::sha256_by_name(weights);
  std::vector<std::string> names;
  for (const TensorView& buffer : buffers) names.push_back(buffer.name);
  weights.insert(weights.end(), buffers.begin(), buffers.end());
  std::sort(weights.begin(), weights.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  checkpoint::write_safetensors(path, weights, run::model_metadata({{"weights_sha256", hash}}, names));
  return hash;
}

}  // namespace

struct PipelineParallel::State {
  static Options checked(Options given) {
    compute::require_own_rule(given.optimizer);
    return given;
  }
  State(World& w, model::Blueprint b, Loss loss, Options o)
      : world(w),
        blueprint(std::move(b)),
        task(std::move(loss)),
        options(checked(std::move(o))),
        mesh(mesh::resolve_mesh({.pipeline = options.pipeline > 0 ? options.pipeline : w.size()}, w.size())),
        place(mesh::place_of(mesh, w.rank())),
        peers(w.split(place.pipeline)),
        lr(options.optimizer.lr) {
    if (options.lanes == 0) options.lanes = 4 * std::int64_t(w.size());
    if (options.lanes % mesh.data != 0)
      throw Error(ErrorCode::kBadInput, fmt::format("{} lanes cannot be dealt evenly to {} replicas; take a "
                                                    "multiple of them",
                                                    options.lanes, mesh.data));
    if (mesh.pipeline > int(blueprint.size()))
      throw Error(ErrorCode::kBadInput, fmt::format("a list of {} blocks cannot be cut into {} stages",
                                                    blueprint.size(), mesh.pipeline));
  }

  std::int64_t own_lanes() const { return options.lanes / mesh.data; }
  // The part of `samples` that lane `lane` of this replica has.
  SliceRange part_of(std::int64_t samples, std::int64_t lane) const {
    return share_of(samples, int(lane), int(own_lanes()));
  }
  std::vector<int> stage_ends(const torch::Tensor& sample);
  void build();
  void build_team(const torch::Tensor& sample);
  std::int64_t largest_lane(std::int64_t samples) const { return (samples + own_lanes() - 1) / own_lanes(); }
  tasks::TensorBatch next_lane();
  // Weights that this worker's stage updates, then buffers; and how many weights these are.
  std::pair<std::vector<TensorView>, std::size_t> own_tensors() const;

  World& world;
  model::Blueprint blueprint;
  OwnLoss task;
  Options options;
  mesh::Mesh mesh;
  mesh::MeshPlace place;
  World peers;
  mesh::NetworkOutline outline;
  std::vector<Stage> stages;
  std::unique_ptr<mesh::PipelineTeam> team;  // from the first step on
  std::int64_t lane_samples = 0;             // that the ways between stages have room for
  torch::Tensor input, target;               // of the step
  std::int64_t next = 0;                     // lane of it
  std::int64_t steps = 0;
  double lr;
};

std::vector<int> PipelineParallel::State::stage_ends(const torch::Tensor& sample) {
  if (mesh.pipeline == 1) return {int(blueprint.size())};
  return mesh::agree_on_ends(world, mesh.pipeline, [&] {
    const std::int64_t count = sample.size(0);
    const auto costs =
        planner::measure_blocks(blueprint, options.seed, task, {sample, target.narrow(0, 0, count), count});
    return options.cuts.empty() ? mesh::choose_cuts(costs, mesh.pipeline, {})
                                : mesh::given_cuts(options.cuts, costs, mesh.pipeline, {});
  });
}

void PipelineParallel::State::build() {
  const torch::Tensor sample = torch::zeros_like(input.narrow(0, 0, largest_lane(input.size(0))));
  outline = mesh::outline_of(blueprint, stage_ends(sample), options.seed);
  const mesh::StageOutline& own = outline.stages[std::size_t(place.pipeline)];
  stages.push_back(mesh::make_stage(
      place.pipeline, own, std::make_shared<model::Network>(blueprint, own.blocks, options.seed), nullptr));
  Stage& stage = stages[0];
  mesh::AllreduceGroup::Options group;
  group.lanes = options.lanes;
  group.optimizer = options.optimizer;
  group.clip_norm = options.clip_norm;
  group.overlap = mesh::Overlap::kReduce;
  group.lane_values = mesh::lane_values(*stage.network);
  stage.group = std::make_unique<mesh::AllreduceGroup>(peers, stage.parameters, group);
  if (peers.local_rank() == 0)
    compute::copy_parameters(*stage.network, stage.group->layout(), stage.group->parameters());
  stage.group->barrier();
  build_team(sample);
}

// Again where a step has larger lanes than those before it.
void PipelineParallel::State::build_team(const torch::Tensor& sample) {
  team.reset();
  lane_samples = sample.size(0);
  const mesh::Carrier& carrier = stages[0].group->carrier(0);
  team = std::make_unique<mesh::PipelineTeam>(
      mesh::PipelineTeam::Options{.world = &world,
                                  .stages = stages,
                                  .outline = &outline,
                                  .mesh = mesh,
                                  .schedule = mesh::parse_pipeline_schedule(options.schedule),
                                  .chunks = 1,
                                  .recompute = options.recompute,
                                  .array_bytes = mesh::largest_array(stages, mesh, world, sample),
                                  .lanes = carrier.lanes,
                                  .task = &task,
                                  .next_batch = [this] { return next_lane(); },
                                  .in_backward = {},
                                  .clip_norm = options.clip_norm,
                                  .seed = options.seed});
}

// A stage that is both the first and the last asks once for a lane.
tasks::TensorBatch PipelineParallel::State::next_lane() {
  const SliceRange range = part_of(input.size(0), next++ % own_lanes());
  return {input.narrow(0, range.begin, range.count), target.narrow(0, range.begin, range.count), range.count};
}

std::pair<std::vector<TensorView>, std::size_t> PipelineParallel::State::own_tensors() const {
  std::vector<TensorView> tensors = run::parameter_views(*stages[0].network);
  const auto& tied = stages[0].outline->tied;
  std::erase_if(tensors, [&](const TensorView& view) {
    return std::find(tied.begin(), tied.end(), view.name) != tied.end();
  });
  const std::size_t weights = tensors.size();
  const std::vector<TensorView> buffers = run::buffer_views(*stages[0].network);
  tensors.insert(tensors.end(), buffers.begin(), buffers.end());
  return {std::move(tensors), weights};
}

PipelineParallel::PipelineParallel(World& world, torch::nn::Sequential model, Loss loss, Options options) {
  if (model->is_empty()) throw Error(ErrorCode::kBadInput, "an empty list of modules cannot be trained");
  broadcast_module(world, *model);
  state_ = std::make_unique<State>(world, blueprint_of(model), std::move(loss), std::move(options));
}

PipelineParallel::PipelineParallel(World& world, model::Blueprint blocks, Loss loss, Options options)
    : state_(std::make_unique<State>(world, std::move(blocks), std::move(loss), std::move(options))) {}

PipelineParallel::~PipelineParallel() = default;

int PipelineParallel::replica() const { return state_->place.data; }
int PipelineParallel::replicas() const { return state_->mesh.data; }
void PipelineParallel::set_lr(double lr) { state_->lr = lr; }

double PipelineParallel::step(const torch::Tensor& input, const torch::Tensor& target) {
  State& state = *state_;
  if (input.size(0) != target.size(0) || input.size(0) < state.own_lanes())
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("a step wants as many targets as inputs, and a sample for each of {} lanes; found "
                    "{} inputs and {} targets",
                    state.own_lanes(), input.size(0), target.size(0)));
  state.input = input;
  state.target = target;
  state.next = 0;
  if (!state.team)
    state.build();
  else if (const std::int64_t lane = state.largest_lane(input.size(0)); lane > state.lane_samples)
    state.build_team(torch::zeros_like(input.narrow(0, 0, lane)));
  std::vector<std::int64_t> samples;
  for (std::int64_t lane = 0; lane < state.options.lanes; ++lane)
    samples.push_back(state.part_of(input.size(0), lane % state.own_lanes()).count);
  return state.team->step({state.steps++, state.lr, samples}, {}).loss;
}

std::string PipelineParallel::save_model(const std::filesystem::path& path) {
  State& state = *state_;
  if (!state.team)
    throw Error(ErrorCode::kBadInput, "a pipeline has no weights before its first step; take one, then save");
  const bool is_root = state.world.rank() == 0;
  std::vector<std::vector<std::byte>> kept;  // of other stages
  std::vector<TensorView> weights, buffers;
  for (int s = 0; s < state.mesh.pipeline; ++s) {
    const int owner = mesh::rank_at(state.mesh, {.data = 0, .pipeline = s, .tensor = 0});
    const bool is_mine = state.world.rank() == owner;
    std::vector<TensorView> own;
    std::string text;
    if (is_mine) {
      const auto& [tensors, count] = state.own_tensors();
      own = tensors;
      text = heads_of(own, count).dump();
    }
    const Json heads =
        parse_json(comm::broadcast_text(state.world.communicator(), text, owner), "the heads of tensors");
    for (std::size_t i = 0; i < heads.size(); ++i) {
      TensorView view = is_mine ? own[i] : view_of(heads[i]);
      if (is_mine && !is_root) send_to_root(state.world, view);
      if (!is_root) continue;
      if (!is_mine) receive_from(state.world, owner, view, kept);
      (heads[i].at("buffer").get<bool>() ? buffers : weights).push_back(view);
    }
  }
  return is_root ? write_model(path, std::move(weights), buffers) : std::string();
}

}  // namespace distbelief
