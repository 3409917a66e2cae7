#include "distbelief/model/wide_and_deep.h"

#include <fmt/format.h>

#include "distbelief/base/error.h"
#include "distbelief/model/device.h"
#include "distbelief/model/layers.h"
#include "distbelief/model/requirements.h"

namespace distbelief::model {
namespace {

constexpr std::int64_t kMostCrossed = 256;  // features; their products grow with the square

// Each block passes the features on after its own output, for the wide part at the end.
struct DeepLayer {
  int index = 1;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  std::int64_t features = 0;
  Activation activation = Activation::kRelu;
  double dropout = 0.0;
};

class DeepBlock final : public Block {
 public:
  explicit DeepBlock(const DeepLayer& layer)
      : layer_(layer),
        fc_(register_module(fmt::format("fc{}", layer.index),
                            torch::nn::Linear(layer.inputs, layer.outputs))),
        dropout_(
            register_module(fmt::format("drop{}", layer.index), std::make_shared<Dropout>(layer.dropout))) {}

  torch::Tensor forward(torch::Tensor input) override {
    const bool first = layer_.index == 1;
    const torch::Tensor features = first ? input : input.narrow(1, layer_.inputs, layer_.features);
    const torch::Tensor x = fc_(first ? input : input.narrow(1, 0, layer_.inputs));
    return torch::cat({dropout_->forward(activate_in_place(layer_.activation, x)), features}, 1);
  }

 private:
  DeepLayer layer_;
  torch::nn::Linear fc_;
  std::shared_ptr<Dropout> dropout_;
};

class WideHeadBlock final : public Block {
 public:
  enum class Products { kNone, kByTwos };
  WideHeadBlock(const DeepLayer& last, std::int64_t outputs, Products products)
      : deep_inputs_(last.outputs),
        features_(last.features),
        deep_(register_module("deep", torch::nn::Linear(deep_inputs_, outputs))),
        wide_(register_module("wide", torch::nn::Linear(wide_inputs(products), outputs))) {
    if (products == Products::kByTwos) {
      const torch::Tensor pairs = torch::triu_indices(features_, features_, 1);
      first_ = pairs[0].contiguous();
      second_ = pairs[1].contiguous();
    }
  }

  torch::Tensor forward(torch::Tensor input) override {
    torch::Tensor wide = input.narrow(1, deep_inputs_, features_);
    const auto column = [&wide](const torch::Tensor& of) {
      return wide.index_select(1, on_device(of, wide.device()));
    };
    if (first_.defined()) wide = torch::cat({wide, column(first_) * column(second_)}, 1);
    return deep_(input.narrow(1, 0, deep_inputs_)) + wide_(wide);
  }

 private:
  std::int64_t wide_inputs(Products products) const {
    return features_ + (products == Products::kByTwos ? features_ * (features_ - 1) / 2 : 0);
  }

  std::int64_t deep_inputs_;
  std::int64_t features_;
  torch::Tensor first_, second_;  // feature indices of each pair
  torch::nn::Linear deep_;
  torch::nn::Linear wide_;
};

}  // namespace

std::vector<OptionSpec> wide_and_deep_options() {
  return {{"hidden", std::vector<std::int64_t>{64, 32}, "widths of the deep part's layers, at least one"},
          {"cross", true, "also give the wide part the products of every two features"},
          {"activation", std::string("relu"), "relu, leaky_relu, gelu, tanh, silu or elu"},
          {"dropout", 0.0, "probability of dropping a hidden unit"}};
}

Blueprint wide_and_deep_blueprint(const OptionMap& options, const DataShape& shape) {
  require_features("wide_and_deep", shape);
  const std::vector<std::int64_t> hidden = positive_list_option("wide_and_deep", options, "hidden");
  const bool cross = option<bool>(options, "cross");
  if (hidden.empty())
    throw Error(ErrorCode::kBadInput, "model 'wide_and_deep': option 'hidden' needs at least one width",
                {.key = "model.hidden"});
  if (cross && shape.input[0] > kMostCrossed)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("model 'wide_and_deep' multiplies at most {} features with each other, found {}; set "
                    "cross = false",
                    kMostCrossed, shape.input[0]));
  DeepLayer layer{.inputs = shape.input[0],
                  .features = shape.input[0],
                  .activation = parse_activation(option<std::string>(options, "activation")),
                  .dropout = dropout_option("wide_and_deep", options)};
  Blueprint blueprint;
  for (const std::int64_t width : hidden) {
    layer.outputs = width;
    blueprint.push_back({"layers", [layer](const BlockSite&) { return std::make_shared<DeepBlock>(layer); }});
    layer.inputs = width;
    ++layer.index;
  }
  const auto products = cross ? WideHeadBlock::Products::kByTwos : WideHeadBlock::Products::kNone;
  blueprint.push_back({"", [layer, products, outputs = shape.outputs()](const BlockSite&) {
                         return std::make_shared<WideHeadBlock>(layer, outputs, products);
                       }});
  return blueprint;
}

}  // namespace distbelief::model
