#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "distbelief/model/random.h"
#include "distbelief/model/registry.h"

// Models of user programs: any torch module that takes a batch and returns logits.
namespace distbelief::model {

using OwnBlueprint = std::function<Blueprint(const OptionMap& options, const DataShape& shape)>;

// Adds a model to the named models; `entry.blueprint` stays empty. Call it in main() before cli_main(): not
// thread-safe. Throws Error(kBadInput) when the name is taken.
void register_model(ModelEntry entry, OwnBlueprint blueprint);

// A module as a block, with its parameters and buffers under their own names.
template <typename Net>
class OwnBlock final : public Block {
 public:
  explicit OwnBlock(std::shared_ptr<Net> module) : module_(std::move(module)) {
    for (const auto& child : module_->named_children()) register_module(child.key(), child.value());
    for (const auto& own : module_->named_parameters(/*recurse=*/false))
      register_parameter(own.key(), own.value(), own.value().requires_grad());
    for (const auto& own : module_->named_buffers(/*recurse=*/false)) register_buffer(own.key(), own.value());
    mode_ = register_module("_mode", std::make_shared<torch::nn::Module>());
  }
  torch::Tensor forward(torch::Tensor input) override {
    if (module_->is_training() != mode_->is_training()) module_->train(mode_->is_training());
    if (!mode_->is_training()) return module_->forward(std::move(input));
    return with_lane_seed(draws_, [&]() -> torch::Tensor { return module_->forward(std::move(input)); });
  }

 private:
  std::shared_ptr<Net> module_;
  std::shared_ptr<torch::nn::Module> mode_;  // follows the network's training mode; the module is set to it
  std::atomic<Draws> draws_{Draws::kUnknown};
};

// Registers a model whose blocks `make(options, shape)` builds: it returns a shared_ptr to a torch module
// with forward(Tensor). Every process builds the module anew from the job's seed, so the lambda must only
// make layers. Layers that draw from torch's default generator (torch::nn::Dropout) get the lane's seed for
// each forward and take turns when a worker carries several lanes at a time. model::Dropout (model/layers.h)
// draws from the lane's generator and needs no turns.
template <typename Make>
void register_model(const std::string& name, const std::string& description, std::vector<OptionSpec> options,
                    Make make) {
  const DataShape digits{.tokens = false, .input = {1, 28, 28}, .classes = 10};
  register_model(
      {.name = name,
       .description = description,
       .options = std::move(options),
       .typical = digits,
       .bench = digits,
       .blueprint = nullptr},
      [make](const OptionMap& given, const DataShape& shape) -> Blueprint {
        return {{"", [=](const BlockSite&) -> std::shared_ptr<Block> {
                   auto module = make(given, shape);
                   return std::make_shared<OwnBlock<typename decltype(module)::element_type>>(module);
                 }}};
      });
}

}  // namespace distbelief::model

namespace distbelief {
using model::register_model;
}  // namespace distbelief
