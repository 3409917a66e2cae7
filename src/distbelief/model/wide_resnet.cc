#include "distbelief/model/wide_resnet.h"

#include <fmt/format.h>

#include "distbelief/base/error.h"
#include "distbelief/model/layers.h"
#include "distbelief/model/requirements.h"

namespace distbelief::model {
namespace {

constexpr std::int64_t kStemChannels = 16;

struct WideBlockOptions {
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  std::int64_t stride = 1;
  double dropout = 0.0;
};

torch::nn::Conv2d plain_convolution(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel,
                                    std::int64_t stride) {
  torch::nn::Conv2d convolution(
      torch::nn::Conv2dOptions(inputs, outputs, kernel).stride(stride).padding(kernel / 2).bias(false));
  torch::nn::init::kaiming_normal_(convolution->weight, 0.0, torch::kFanOut, torch::kReLU);
  return convolution;
}

class WideBlock final : public Block {
 public:
  explicit WideBlock(const WideBlockOptions& options)
      : bn1_(register_module("bn1", torch::nn::BatchNorm2d(options.inputs))),
        conv1_(
            register_module("conv1", plain_convolution(options.inputs, options.outputs, 3, options.stride))),
        bn2_(register_module("bn2", torch::nn::BatchNorm2d(options.outputs))),
        dropout_(register_module("dropout", std::make_shared<Dropout>(options.dropout))),
        conv2_(register_module("conv2", plain_convolution(options.outputs, options.outputs, 3, 1))) {
    if (options.stride > 1 || options.inputs != options.outputs)
      shortcut_ =
          register_module("shortcut", plain_convolution(options.inputs, options.outputs, 1, options.stride));
  }

  torch::Tensor forward(torch::Tensor input) override {
    const torch::Tensor active = activate_in_place(Activation::kRelu, bn1_(input));
    torch::Tensor x = conv2_(dropout_->forward(activate_in_place(Activation::kRelu, bn2_(conv1_(active)))));
    return x + (shortcut_.is_empty() ? input : shortcut_(active));
  }

 private:
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn2_;
  std::shared_ptr<Dropout> dropout_;
  torch::nn::Conv2d conv2_;
  torch::nn::Conv2d shortcut_{nullptr};
};

class WideHead final : public Block {
 public:
  WideHead(std::int64_t inputs, std::int64_t outputs)
      : bn_(register_module("bn", torch::nn::BatchNorm2d(inputs))),
        fc_(register_module("fc", torch::nn::Linear(inputs, outputs))) {}

  torch::Tensor forward(torch::Tensor input) override {
    return fc_(
        torch::adaptive_avg_pool2d(activate_in_place(Activation::kRelu, bn_(input)), {1, 1}).flatten(1));
  }

 private:
  torch::nn::BatchNorm2d bn_;
  torch::nn::Linear fc_;
};

std::int64_t blocks_per_group(std::int64_t depth, std::int64_t groups) {
  const std::int64_t convolutions = depth - groups - 1;
  if (groups > 0 && convolutions >= 2 * groups && convolutions % (2 * groups) == 0)
    return convolutions / (2 * groups);
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("model 'wide_resnet': with {} widths option 'depth' must be {} n + {}, n at least 1, "
                  "found {}",
                  groups, 2 * groups, groups + 1, depth),
      {.key = "model.depth"});
}

}  // namespace

std::vector<OptionSpec> wide_resnet_options() {
  return {{"depth", std::int64_t{16}, "convolutions: 6 n + 4 with three widths, n blocks in each group"},
          {"widths", std::vector<std::int64_t>{16, 32, 64}, "channels of each group, before the factor"},
          {"factor", std::int64_t{4}, "how many times as wide"},
          {"dropout", 0.0, "between the two convolutions of a block"}};
}

Blueprint wide_resnet_blueprint(const OptionMap& options, const DataShape& shape) {
  require_images("wide_resnet", shape);
  const std::vector<std::int64_t> widths = positive_list_option("wide_resnet", options, "widths");
  const std::int64_t factor = positive_option("wide_resnet", options, "factor");
  const std::int64_t blocks =
      blocks_per_group(positive_option("wide_resnet", options, "depth"), std::int64_t(widths.size()));
  const std::int64_t reduction = std::int64_t{1} << (widths.size() - 1);
  if (shape.input[1] <= reduction && shape.input[2] <= reduction)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("model 'wide_resnet' with {} widths shrinks images by a factor of {} and wants more "
                    "than {} pixels one way, found {}",
                    widths.size(), reduction, reduction, to_string(shape.input)));
  Blueprint blueprint;
  blueprint.push_back({"", [channels = shape.input[0]](const BlockSite&) {
                         torch::nn::Sequential layers;
                         layers->push_back("conv1", plain_convolution(channels, kStemChannels, 3, 1));
                         return std::make_shared<LayerBlock>(layers);
                       }});
  WideBlockOptions block{.inputs = kStemChannels, .dropout = dropout_option("wide_resnet", options)};
  for (std::size_t g = 0; g < widths.size(); ++g)
    for (std::int64_t b = 0; b < blocks; ++b) {
      block.outputs = widths[g] * factor;
      block.stride = g > 0 && b == 0 ? 2 : 1;
      blueprint.push_back({fmt::format("group{}.{}", g + 1, b),
                           [block](const BlockSite&) { return std::make_shared<WideBlock>(block); }});
      block.inputs = block.outputs;
    }
  blueprint.push_back({"", [inputs = block.inputs, outputs = shape.outputs()](const BlockSite&) {
                         return std::make_shared<WideHead>(inputs, outputs);
                       }});
  return blueprint;
}

}  // namespace distbelief::model
