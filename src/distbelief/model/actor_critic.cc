#include "distbelief/model/actor_critic.h"

#include <fmt/format.h>

#include "distbelief/model/requirements.h"

namespace distbelief::model {
namespace {

struct ActorOptions {
  std::int64_t observed = 0;
  std::int64_t actions = 0;
  std::int64_t environments = 0;
  std::vector<std::int64_t> hidden;
};

torch::nn::Sequential tanh_layers(const ActorOptions& options, std::int64_t outputs) {
  torch::nn::Sequential layers;
  std::int64_t inputs = options.observed;
  int index = 1;
  for (const std::int64_t width : options.hidden) {
    layers->push_back(fmt::format("fc{}", index), torch::nn::Linear(inputs, width));
    layers->push_back(fmt::format("act{}", index++), torch::nn::Tanh());
    inputs = width;
  }
  layers->push_back(fmt::format("fc{}", index), torch::nn::Linear(inputs, outputs));
  return layers;
}

class Worlds final : public torch::nn::Module {
 public:
  Worlds(std::int64_t environments, std::int64_t width) {
    register_buffer("rows", torch::zeros({environments, width}));
  }
};

// Gives [observation | logits].
class PolicyBlock final : public Block {
 public:
  explicit PolicyBlock(const ActorOptions& options)
      : layers_(register_module("policy", tanh_layers(options, options.actions))) {
    register_module("worlds", std::make_shared<Worlds>(options.environments, options.observed + 1));
    const torch::NoGradGuard no_grad;
    layers_->parameters()[layers_->parameters().size() - 2].mul_(0.01);  // at first all actions are alike
  }
  torch::Tensor forward(torch::Tensor input) override {
    return torch::cat({input, layers_->forward(input)}, 1);
  }

 private:
  torch::nn::Sequential layers_;
};

// Gives [logits | value].
class ValueBlock final : public Block {
 public:
  explicit ValueBlock(const ActorOptions& options)
      : options_(options),
        layers_(register_module("value", tanh_layers(options, 1))) {}
  torch::Tensor forward(torch::Tensor input) override {
    return torch::cat({input.narrow(1, options_.observed, options_.actions),
                       layers_->forward(input.narrow(1, 0, options_.observed))},
                      1);
  }

 private:
  ActorOptions options_;
  torch::nn::Sequential layers_;
};

}  // namespace

std::vector<OptionSpec> actor_critic_options() {
  return {{"hidden", std::vector<std::int64_t>{64, 64}, "widths of the hidden layers of both networks"},
          {"environments", std::int64_t{32}, "that are acted in at a time: train.batch_size"},
          {"rollout", std::int64_t{32}, "steps that each environment takes in a training step"},
          {"discount", 0.99, "of a reward for each step that it comes later"},
          {"trace", 0.95, "weight of longer returns in the advantage (lambda of GAE)"},
          {"entropy", 0.01, "weight of the policy's entropy"}};
}

Blueprint actor_critic_blueprint(const OptionMap& options, const DataShape& shape) {
  require_features("actor_critic", shape);
  const ActorOptions resolved{.observed = shape.input[0],
                              .actions = shape.outputs(),
                              .environments = positive_option("actor_critic", options, "environments"),
                              .hidden = positive_list_option("actor_critic", options, "hidden")};
  Blueprint blueprint;
  blueprint.push_back({"", [resolved](const BlockSite&) { return std::make_shared<PolicyBlock>(resolved); }});
  blueprint.push_back({"", [resolved](const BlockSite&) { return std::make_shared<ValueBlock>(resolved); }});
  return blueprint;
}

torch::Tensor carried_worlds(const Network& network) { return network.named_buffers()["worlds.rows"]; }

}  // namespace distbelief::model
