#include "distbelief/model/actor_critic.h"

#include <fmt/format.h>

#include "distbelief/model/requirements.h"

namespace distbelief::model {
namespace {

struct ActorOptions {
  std::int64_t observed = 0;
  std::int64_t actions = 0;
  std::int64_t environments = 0;
  std::int64_t voters = 1;
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

// The networks of all voters side by side: concatenates their outputs in turn. A single voter has no number
// in its names.
class Voters final : public torch::nn::Module {
 public:
  Voters(const ActorOptions& options, std::int64_t outputs) {
    for (std::int64_t v = 0; v < options.voters; ++v) {
      voters_.push_back(tanh_layers(options, outputs));
      if (options.voters > 1)
        register_module(std::to_string(v), voters_.back());
      else
        for (const auto& layer : voters_.back()->named_children())
          register_module(layer.key(), layer.value());
    }
  }
  torch::Tensor forward(const torch::Tensor& input) {
    std::vector<torch::Tensor> outputs;
    for (torch::nn::Sequential& voter : voters_) outputs.push_back(voter->forward(input));
    return outputs.size() == 1 ? outputs[0] : torch::cat(outputs, 1);
  }
  void soften(double factor) {  // scales the last layers' weights
    const torch::NoGradGuard no_grad;
    for (torch::nn::Sequential& voter : voters_)
      voter->parameters()[voter->parameters().size() - 2].mul_(factor);
  }

 private:
  std::vector<torch::nn::Sequential> voters_;
};

class Worlds final : public torch::nn::Module {
 public:
  Worlds(std::int64_t environments, std::int64_t width) {
    register_buffer("rows", torch::zeros({environments, width}));
  }
};

// Outputs [observation | logits of each voter].
class PolicyBlock final : public Block {
 public:
  explicit PolicyBlock(const ActorOptions& options)
      : voters_(register_module("policy", std::make_shared<Voters>(options, options.actions))) {
    register_module("worlds", std::make_shared<Worlds>(options.environments, options.observed + 1));
    voters_->soften(0.01);  // starts with nearly equal action probabilities
  }
  torch::Tensor forward(torch::Tensor input) override {
    return torch::cat({input, voters_->forward(input)}, 1);
  }

 private:
  std::shared_ptr<Voters> voters_;
};

// Outputs [logits of each voter | value of each].
class ValueBlock final : public Block {
 public:
  explicit ValueBlock(const ActorOptions& options)
      : options_(options),
        voters_(register_module("value", std::make_shared<Voters>(options, 1))) {}
  torch::Tensor forward(torch::Tensor input) override {
    return torch::cat({input.narrow(1, options_.observed, options_.voters * options_.actions),
                       voters_->forward(input.narrow(1, 0, options_.observed))},
                      1);
  }

 private:
  ActorOptions options_;
  std::shared_ptr<Voters> voters_;
};

}  // namespace

std::vector<OptionSpec> actor_critic_options() {
  return {{"hidden", std::vector<std::int64_t>{64, 64}, "widths of the hidden layers of both networks"},
          {"environments", std::int64_t{32}, "that are acted in at a time: train.batch_size"},
          {"voters", std::int64_t{1}, "pairs of policy and value that elect each action together"},
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
                              .voters = positive_option("actor_critic", options, "voters"),
                              .hidden = positive_list_option("actor_critic", options, "hidden")};
  Blueprint blueprint;
  blueprint.push_back({"", [resolved](const BlockSite&) { return std::make_shared<PolicyBlock>(resolved); }});
  blueprint.push_back({"", [resolved](const BlockSite&) { return std::make_shared<ValueBlock>(resolved); }});
  return blueprint;
}

torch::Tensor carried_worlds(const Network& network) { return network.named_buffers()["worlds.rows"]; }

}  // namespace distbelief::model
