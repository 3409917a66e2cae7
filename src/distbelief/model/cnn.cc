#include "distbelief/model/cnn.h"

#include <fmt/format.h>

#include <algorithm>

#include "distbelief/base/error.h"
#include "distbelief/model/layers.h"
#include "distbelief/model/max_pool.h"
#include "distbelief/model/requirements.h"

namespace distbelief::model {
namespace {

// Each pool halves height and width, rounding down; the last must leave at least one pixel.
void require_size(const DataShape& shape, std::size_t pools) {
  const std::int64_t smaller = std::min(shape.input[1], shape.input[2]);
  if (pools < 63 && (smaller >> pools) > 0) return;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("model 'cnn' with {} entries in 'channels' halves images as often and wants at least 2^{} "
                  "pixels each way, found images {}; use fewer channels or larger images",
                  pools, pools, to_string(shape.input)));
}

}  // namespace

std::vector<OptionSpec> cnn_options() {
  return {{"channels", std::vector<std::int64_t>{32, 64}, "outputs of each convolution"},
          {"hidden", std::int64_t{128}, "width of the linear layer after them"},
          {"activation", std::string("relu"), "relu, leaky_relu, gelu, tanh, silu or elu"},
          {"dropout", 0.0, "probability of dropping a hidden unit"}};
}

Blueprint cnn_blueprint(const OptionMap& options, const DataShape& shape) {
  require_images("cnn", shape);
  const auto channels = positive_list_option("cnn", options, "channels");
  const std::int64_t hidden = positive_option("cnn", options, "hidden");
  const Activation activation = parse_activation(option<std::string>(options, "activation"));
  const double dropout = dropout_option("cnn", options);
  require_size(shape, channels.size());

  // ReLU commutes with the maximum, so pooling first gives the same bits from a quarter of the values. Other
  // activations are not monotone or may round two values to one.
  const bool pool_first = activation == Activation::kRelu;
  Blueprint blueprint;
  std::int64_t depth = shape.input[0];
  for (std::size_t i = 0; i < channels.size(); ++i) {
    blueprint.push_back({"layers", [=, next = channels[i]](const BlockSite&) {
                           torch::nn::Sequential layers;
                           const auto convolution = torch::nn::Conv2dOptions(depth, next, 3).padding(1);
                           layers->push_back(fmt::format("conv{}", i + 1), torch::nn::Conv2d(convolution));
                           const auto act = [&] {
                             layers->push_back(fmt::format("conv_act{}", i + 1),
                                               std::make_shared<Activate>(activation));
                           };
                           if (!pool_first) act();
                           layers->push_back(fmt::format("pool{}", i + 1), std::make_shared<MaxPool2x2>());
                           if (pool_first) act();
                           return std::make_shared<LayerBlock>(layers);
                         }});
    depth = channels[i];
  }
  const std::int64_t pixels = (shape.input[1] >> channels.size()) * (shape.input[2] >> channels.size());
  const DenseOptions dense{
      .index = 1, .inputs = depth * pixels, .outputs = hidden, .activation = activation, .dropout = dropout};
  blueprint.push_back({"layers", [dense](const BlockSite&) {
                         torch::nn::Sequential layers;
                         layers->push_back("flatten", torch::nn::Flatten());
                         append_dense(layers, dense);
                         return std::make_shared<LayerBlock>(layers);
                       }});
  blueprint.push_back({"layers", [hidden, classes = shape.outputs()](const BlockSite&) {
                         torch::nn::Sequential layers;
                         layers->push_back("fc2", torch::nn::Linear(hidden, classes));
                         return std::make_shared<LayerBlock>(layers);
                       }});
  return blueprint;
}

}  // namespace distbelief::model
