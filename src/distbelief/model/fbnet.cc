#include "distbelief/model/fbnet.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "distbelief/base/error.h"
#include "distbelief/model/layers.h"
#include "distbelief/model/requirements.h"

namespace distbelief::model {
namespace {

constexpr std::int64_t kStemStride = 2;

struct GroupedOptions {
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t groups = 1;
};

torch::nn::Conv2d grouped_convolution(const GroupedOptions& options) {
  torch::nn::Conv2d convolution(torch::nn::Conv2dOptions(options.inputs, options.outputs, options.kernel)
                                    .stride(options.stride)
                                    .padding(options.kernel / 2)
                                    .groups(options.groups)
                                    .bias(false));
  torch::nn::init::kaiming_normal_(convolution->weight, 0.0, torch::kFanIn, torch::kReLU);
  return convolution;
}

class InvertedResidual final : public Block {
 public:
  InvertedResidual(const Candidate& candidate, const FbnetLayer& layer)
      : groups_(candidate.groups),
        residual_(layer.keeps_shape()) {
    const std::int64_t inside = layer.inputs * candidate.expansion;
    conv1_ = register_module(
        "conv1",
        grouped_convolution({.inputs = layer.inputs, .outputs = inside, .groups = candidate.groups}));
    bn1_ = register_module("bn1", torch::nn::BatchNorm2d(inside));
    conv2_ = register_module("conv2", grouped_convolution({.inputs = inside,
                                                           .outputs = inside,
                                                           .kernel = candidate.kernel,
                                                           .stride = layer.stride,
                                                           .groups = inside}));
    bn2_ = register_module("bn2", torch::nn::BatchNorm2d(inside));
    conv3_ = register_module(
        "conv3",
        grouped_convolution({.inputs = inside, .outputs = layer.outputs, .groups = candidate.groups}));
    bn3_ = register_module("bn3", torch::nn::BatchNorm2d(layer.outputs));
  }

  torch::Tensor forward(torch::Tensor input) override {
    torch::Tensor x = activate_in_place(Activation::kRelu, bn1_(conv1_(input)));
    if (groups_ > 1) x = shuffle_channels(x, groups_);
    x = bn3_(conv3_(activate_in_place(Activation::kRelu, bn2_(conv2_(x)))));
    return residual_ ? x + input : x;
  }

 private:
  std::int64_t groups_;
  bool residual_;
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr}, conv3_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr}, bn2_{nullptr}, bn3_{nullptr};
};

class Skip final : public Block {
 public:
  torch::Tensor forward(torch::Tensor input) override { return input; }
};

class FbnetStem final : public Block {
 public:
  FbnetStem(std::int64_t inputs, std::int64_t outputs)
      : conv_(register_module(
            "conv",
            grouped_convolution({.inputs = inputs, .outputs = outputs, .kernel = 3, .stride = kStemStride}))),
        bn_(register_module("bn", torch::nn::BatchNorm2d(outputs))) {}
  torch::Tensor forward(torch::Tensor input) override {
    return activate_in_place(Activation::kRelu, bn_(conv_(std::move(input))));
  }

 private:
  torch::nn::Conv2d conv_;
  torch::nn::BatchNorm2d bn_;
};

class FbnetHead final : public Block {
 public:
  FbnetHead(std::int64_t inputs, std::int64_t outputs)
      : fc_(register_module("fc", torch::nn::Linear(inputs, outputs))) {}
  torch::Tensor forward(torch::Tensor input) override {
    return fc_(torch::adaptive_avg_pool2d(torch::relu(input), {1, 1}).flatten(1));
  }

 private:
  torch::nn::Linear fc_;
};

void require_size(const std::string& name, std::size_t stages, const DataShape& shape) {
  const std::int64_t reduction = kStemStride << (stages - 1);
  if (shape.input[1] > reduction && shape.input[2] > reduction) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("model '{}' with {} widths shrinks images by a factor of {} and wants more than {} "
                          "pixels each way, found {}",
                          name, stages, reduction, reduction, to_string(shape.input)));
}

}  // namespace

std::vector<OptionSpec> fbnet_frame_options() {
  return {{"stem", std::int64_t{16}, "channels of the first convolution, which halves the image"},
          {"widths", std::vector<std::int64_t>{16, 24, 32}, "channels; each but the first halves the image"},
          {"depth", std::int64_t{2}, "layers of each width"}};
}

std::vector<FbnetLayer> fbnet_layers(const std::string& name, const OptionMap& options,
                                     const DataShape& shape) {
  require_images(name, shape);
  const std::vector<std::int64_t> widths = positive_list_option(name, options, "widths");
  const std::int64_t depth = positive_option(name, options, "depth");
  FbnetLayer layer{.inputs = positive_option(name, options, "stem")};
  const bool odd = layer.inputs % 2 != 0 ||
                   std::any_of(widths.begin(), widths.end(), [](auto width) { return width % 2 != 0; });
  if (odd || widths.empty())
    throw Error(ErrorCode::kBadInput,
                fmt::format("model '{}': stem and widths must be even, for convolutions in two groups, and "
                            "one or more; found {} and [{}]",
                            name, layer.inputs, fmt::join(widths, ", ")));
  require_size(name, widths.size(), shape);
  layer.height = (shape.input[1] + 1) / kStemStride;
  layer.width = (shape.input[2] + 1) / kStemStride;
  std::vector<FbnetLayer> layers;
  for (std::size_t stage = 0; stage < widths.size(); ++stage)
    for (std::int64_t i = 0; i < depth; ++i) {
      layer.outputs = widths[stage];
      layer.stride = stage > 0 && i == 0 ? 2 : 1;
      layers.push_back(layer);
      layer.inputs = layer.outputs;
      layer.height = (layer.height + layer.stride - 1) / layer.stride;
      layer.width = (layer.width + layer.stride - 1) / layer.stride;
    }
  return layers;
}

torch::Tensor shuffle_channels(const torch::Tensor& input, std::int64_t groups) {
  const auto sizes = input.sizes();
  return input.view({-1, groups, sizes[1] / groups, sizes[2], sizes[3]})
      .transpose(1, 2)
      .reshape({-1, sizes[1], sizes[2], sizes[3]});
}

std::shared_ptr<Block> make_candidate(const Candidate& candidate, const FbnetLayer& layer) {
  if (candidate.kernel == 0) return std::make_shared<Skip>();
  return std::make_shared<InvertedResidual>(candidate, layer);
}

BlockRecipe fbnet_stem(const std::string& path, const OptionMap& options, const DataShape& shape) {
  return {path, [inputs = shape.input[0], outputs = option<std::int64_t>(options, "stem")](const BlockSite&) {
            return std::make_shared<FbnetStem>(inputs, outputs);
          }};
}

BlockRecipe fbnet_head(const std::string& path, const OptionMap& options, const DataShape& shape) {
  const std::int64_t inputs = option<std::vector<std::int64_t>>(options, "widths").back();
  return {path, [inputs, outputs = shape.outputs()](const BlockSite&) {
            return std::make_shared<FbnetHead>(inputs, outputs);
          }};
}

std::vector<OptionSpec> fbnet_options() {
  std::vector<OptionSpec> options = fbnet_frame_options();
  options.push_back({"architecture", std::string(),
                     "what fills each layer, as fbnet_search finds it: \"k3_e1 skip k5_e3_g2 ...\"; empty: "
                     "k3_e3 everywhere"});
  return options;
}

Blueprint fbnet_blueprint(const OptionMap& options, const DataShape& shape) {
  const std::vector<FbnetLayer> layers = fbnet_layers("fbnet", options, shape);
  const std::vector<Candidate> chosen =
      parse_architecture(option<std::string>(options, "architecture"), layers);
  Blueprint blueprint{fbnet_stem("stem", options, shape)};
  for (std::size_t i = 0; i < layers.size(); ++i)
    blueprint.push_back(
        {fmt::format("layer{}", i + 1), [layer = layers[i], candidate = chosen[i]](const BlockSite&) {
           return make_candidate(candidate, layer);
         }});
  blueprint.push_back(fbnet_head("head", options, shape));
  return blueprint;
}

}  // namespace distbelief::model
