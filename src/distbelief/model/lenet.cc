#include "distbelief/model/lenet.h"

#include <fmt/format.h>

#include <algorithm>

#include "distbelief/base/error.h"
#include "distbelief/model/layers.h"
#include "distbelief/model/requirements.h"

namespace distbelief::model {
namespace {

constexpr std::int64_t kKernel = 5;
constexpr std::int64_t kFirst = 6, kSecond = 16;    // channels
constexpr std::int64_t kThird = 120, kFourth = 84;  // units

struct LeNetConvolution {
  int index = 1;
  std::int64_t inputs = 1;
  std::int64_t outputs = 1;
  std::int64_t padding = 0;
  Activation activation = Activation::kTanh;
};

std::shared_ptr<Block> convolution_block(const LeNetConvolution& options) {
  torch::nn::Sequential layers;
  layers->push_back(
      fmt::format("conv{}", options.index),
      torch::nn::Conv2d(
          torch::nn::Conv2dOptions(options.inputs, options.outputs, kKernel).padding(options.padding)));
  layers->push_back(fmt::format("squash{}", options.index), std::make_shared<Activate>(options.activation));
  layers->push_back(fmt::format("pool{}", options.index),
                    torch::nn::AvgPool2d(torch::nn::AvgPool2dOptions(2)));
  return std::make_shared<LayerBlock>(layers);
}

std::shared_ptr<Block> dense_block(const DenseOptions& options) {
  torch::nn::Sequential layers;
  if (options.index == 1) layers->push_back("flatten", torch::nn::Flatten());
  append_dense(layers, options);
  return std::make_shared<LayerBlock>(layers);
}

std::int64_t after_both(std::int64_t side, std::int64_t padding) {
  return ((side + 2 * padding - kKernel + 1) / 2 - kKernel + 1) / 2;
}

}  // namespace

std::vector<OptionSpec> lenet_options() {
  return {{"activation", std::string("tanh"), "relu, leaky_relu, gelu, tanh, silu or elu"},
          {"dropout", 0.0, "probability of dropping a unit of the fully connected layers"}};
}

Blueprint lenet_blueprint(const OptionMap& options, const DataShape& shape) {
  require_images("lenet", shape);
  const Activation activation = parse_activation(option<std::string>(options, "activation"));
  const std::int64_t padding = std::min(shape.input[1], shape.input[2]) < 32 ? 2 : 0;
  const std::int64_t height = after_both(shape.input[1], padding),
                     width = after_both(shape.input[2], padding);
  if (height < 1 || width < 1)
    throw Error(ErrorCode::kBadInput, fmt::format("model 'lenet' wants images of at least 12 x 12 pixels, "
                                                  "found {}; use mlp",
                                                  to_string(shape.input)));
  const LeNetConvolution first{1, shape.input[0], kFirst, padding, activation};
  const LeNetConvolution second{2, kFirst, kSecond, 0, activation};
  DenseOptions dense{.index = 1,
                     .inputs = kSecond * height * width,
                     .outputs = kThird,
                     .activation = activation,
                     .dropout = dropout_option("lenet", options)};
  Blueprint blueprint;
  for (const LeNetConvolution& each : {first, second})
    blueprint.push_back({"layers", [each](const BlockSite&) { return convolution_block(each); }});
  blueprint.push_back({"layers", [dense](const BlockSite&) { return dense_block(dense); }});
  dense.index = 2;
  dense.inputs = kThird;
  dense.outputs = kFourth;
  blueprint.push_back({"layers", [dense](const BlockSite&) { return dense_block(dense); }});
  blueprint.push_back({"layers", [outputs = shape.outputs()](const BlockSite&) {
                         torch::nn::Sequential layers;
                         layers->push_back("fc3", torch::nn::Linear(kFourth, outputs));
                         return std::make_shared<LayerBlock>(layers);
                       }});
  return blueprint;
}

}  // namespace distbelief::model
