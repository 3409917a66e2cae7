#include "distbelief/model/resnet.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "distbelief/base/error.h"
#include "distbelief/model/layers.h"
#include "distbelief/model/requirements.h"

namespace distbelief::model {
namespace {

enum class Stem { kCifar, kImagenet };

struct ResNetOptions {
  std::array<int, 4> blocks;  // per stage
  Stem stem = Stem::kImagenet;
  Activation activation = Activation::kRelu;
  double dropout = 0.0;
  std::int64_t channels = 3;
  std::int64_t classes = 1000;
};

struct BlockOptions {
  std::int64_t inputs = 0;
  std::int64_t width = 0;
  std::int64_t stride = 1;
  Activation activation = Activation::kRelu;
};

torch::nn::Conv2d convolution(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel,
                              std::int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(inputs, outputs, kernel).stride(stride).padding(kernel / 2).bias(false));
}

// The shortcut of a block; null where the block keeps the shape and its input is added directly.
torch::nn::Sequential shortcut(const BlockOptions& options, std::int64_t outputs) {
  if (options.stride == 1 && options.inputs == outputs) return nullptr;
  return torch::nn::Sequential(convolution(options.inputs, outputs, 1, options.stride),
                               torch::nn::BatchNorm2d(outputs));
}

torch::nn::BatchNorm2d batch_norm(std::int64_t channels) { return torch::nn::BatchNorm2d(channels); }

void initialise_convolutions(const torch::nn::Module& block) {
  for (const auto& module : block.modules(/*include_self=*/false))
    if (const auto* conv = module->as<torch::nn::Conv2d>())
      torch::nn::init::kaiming_normal_(conv->weight, 0.0, torch::kFanOut, torch::kReLU);
}

// Two or three convolutions and a shortcut. In a tensor group each worker has some of the channels between
// convolutions; the last convolution and the shortcut sum over input channels.
class ResidualBlock : public Block {
 protected:
  ResidualBlock(const BlockOptions& options, TensorGroup* group) : options_(options), group_(group) {}

  // Must run after the block's constructor has made its convolutions.
  void finish(std::int64_t outputs) {
    downsample_ = shortcut(options_, outputs);
    if (!downsample_.is_empty()) register_module("downsample", downsample_);
    initialise_convolutions(*this);
    if (!group_) return;
    width_ = even_share(fmt::format("a block of {} channels of a residual network", options_.width),
                        options_.width, *group_);
    if (downsample_.is_empty()) return;
    inputs_ = even_share(fmt::format("a block of {} input channels of a residual network", options_.inputs),
                         options_.inputs, *group_);
    keep_slice(downsample_[0]->as<torch::nn::Conv2d>()->weight, 1, inputs_);
  }

  void keep_outputs(torch::nn::Conv2d& convolution, torch::nn::BatchNorm2d& norm) {
    keep_slice(convolution->weight, 0, width_);
    for (const torch::Tensor& each : {norm->weight, norm->bias, norm->running_mean, norm->running_var})
      keep_slice(each, 0, width_);
  }
  void keep_inputs(torch::nn::Conv2d& convolution) { keep_slice(convolution->weight, 1, width_); }

  torch::Tensor activated(torch::Tensor x) { return activate_in_place(options_.activation, std::move(x)); }
  // The input for sliced convolutions.
  torch::Tensor entering(const torch::Tensor& input) { return group_ ? enter(*group_, input) : input; }
  // The result of a convolution over sliced inputs.
  torch::Tensor added_up(const torch::Tensor& x) { return group_ ? leave(*group_, x) : x; }
  torch::Tensor gathered(const torch::Tensor& x) {
    return group_ ? gather(*group_, x, 1, options_.width, UsedBy::kSlicedLayers) : x;
  }

  // Batch norm does not keep its result for backward, so the sum and the activation may overwrite it.
  torch::Tensor join(torch::Tensor branch, const torch::Tensor& input, const torch::Tensor& entered) {
    branch.add_(downsample_.is_empty() ? input : around(entered));
    return activated(std::move(branch));
  }

 private:
  torch::Tensor around(const torch::Tensor& entered) {
    if (!group_) return downsample_->forward(entered);
    auto& convolution = *downsample_[0]->as<torch::nn::Conv2d>();
    auto& norm = *downsample_[1]->as<torch::nn::BatchNorm2d>();
    return norm.forward(
        leave(*group_, convolution.forward(entered.narrow(1, inputs_.begin, inputs_.count).contiguous())));
  }

  BlockOptions options_;
  TensorGroup* group_;
  SliceRange width_;   // channels between convolutions
  SliceRange inputs_;  // the block's own input channels, for the shortcut
  torch::nn::Sequential downsample_{nullptr};
};

class BasicBlock final : public ResidualBlock {
 public:
  static constexpr std::int64_t kExpansion = 1;

  BasicBlock(const BlockOptions& options, TensorGroup* group)
      : ResidualBlock(options, group),
        conv1_(register_module("conv1", convolution(options.inputs, options.width, 3, options.stride))),
        bn1_(register_module("bn1", batch_norm(options.width))),
        conv2_(register_module("conv2", convolution(options.width, options.width, 3, 1))),
        bn2_(register_module("bn2", batch_norm(options.width))) {
    finish(options.width);
    if (!group) return;
    keep_outputs(conv1_, bn1_);
    keep_inputs(conv2_);
  }

  torch::Tensor forward(torch::Tensor input) override {
    const torch::Tensor entered = entering(input);
    torch::Tensor x = activated(bn1_(conv1_(entered)));
    return join(bn2_(added_up(conv2_(x))), input, entered);
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d bn2_;
};

class Bottleneck final : public ResidualBlock {
 public:
  static constexpr std::int64_t kExpansion = 4;

  Bottleneck(const BlockOptions& options, TensorGroup* group)
      : ResidualBlock(options, group),
        conv1_(register_module("conv1", convolution(options.inputs, options.width, 1, 1))),
        bn1_(register_module("bn1", batch_norm(options.width))),
        conv2_(register_module("conv2", convolution(options.width, options.width, 3, options.stride))),
        bn2_(register_module("bn2", batch_norm(options.width))),
        conv3_(register_module("conv3", convolution(options.width, options.width * kExpansion, 1, 1))),
        bn3_(register_module("bn3", batch_norm(options.width * kExpansion))) {
    finish(options.width * kExpansion);
    if (!group) return;
    keep_outputs(conv1_, bn1_);
    keep_outputs(conv2_, bn2_);
    keep_inputs(conv3_);
  }

  torch::Tensor forward(torch::Tensor input) override {
    const torch::Tensor entered = entering(input);
    torch::Tensor x = activated(bn1_(conv1_(entered)));
    x = activated(bn2_(conv2_(gathered(x))));
    return join(bn3_(added_up(conv3_(x))), input, entered);
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d bn2_;
  torch::nn::Conv2d conv3_;
  torch::nn::BatchNorm2d bn3_;
};

constexpr std::int64_t kWidth = 64;

class StemBlock final : public Block {
 public:
  explicit StemBlock(const ResNetOptions& options) : stem_(options.stem), activation_(options.activation) {
    const bool small = stem_ == Stem::kCifar;
    conv1_ = register_module("conv1", convolution(options.channels, kWidth, small ? 3 : 7, small ? 1 : 2));
    bn1_ = register_module("bn1", torch::nn::BatchNorm2d(kWidth));
    initialise_convolutions(*this);
  }

  torch::Tensor forward(torch::Tensor input) override {
    torch::Tensor x = activate_in_place(activation_, bn1_(conv1_(input)));
    return stem_ == Stem::kImagenet ? torch::max_pool2d(x, 3, 2, 1) : x;
  }

 private:
  Stem stem_;
  Activation activation_;
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr};
};

class Head final : public Block {
 public:
  Head(std::int64_t inputs, const ResNetOptions& options)
      : dropout_(register_module("dropout", std::make_shared<Dropout>(options.dropout))),
        fc_(register_module("fc", torch::nn::Linear(inputs, options.classes))) {}

  torch::Tensor forward(torch::Tensor input) override {
    const torch::Tensor x = torch::adaptive_avg_pool2d(input, {1, 1}).flatten(1);
    return fc_(dropout_->forward(x));
  }

 private:
  std::shared_ptr<Dropout> dropout_;
  torch::nn::Linear fc_;
};

template <typename Residual>
Blueprint blueprint_of(const ResNetOptions& options) {
  Blueprint blueprint;
  blueprint.push_back({"", [options](const BlockSite&) { return std::make_shared<StemBlock>(options); }});
  std::int64_t inputs = kWidth;
  for (std::size_t i = 0; i < options.blocks.size(); ++i)
    for (int b = 0; b < options.blocks[i]; ++b) {  // only the first block of a stage changes the shape
      const BlockOptions block{.inputs = inputs,
                               .width = kWidth << i,
                               .stride = i > 0 && b == 0 ? 2 : 1,
                               .activation = options.activation};
      blueprint.push_back({fmt::format("layer{}.{}", i + 1, b), [block](const BlockSite& site) {
                             return std::make_shared<Residual>(block, site.group);
                           }});
      inputs = block.width * Residual::kExpansion;
    }
  blueprint.push_back(
      {"", [options, inputs](const BlockSite&) { return std::make_shared<Head>(inputs, options); }});
  return blueprint;
}

struct Variant {
  int depth;
  std::array<int, 4> blocks;
  Blueprint (*blueprint)(const ResNetOptions&);
};

constexpr Variant kVariants[] = {
    {18, {2, 2, 2, 2}, blueprint_of<BasicBlock>},   {34, {3, 4, 6, 3}, blueprint_of<BasicBlock>},
    {50, {3, 4, 6, 3}, blueprint_of<Bottleneck>},   {101, {3, 4, 23, 3}, blueprint_of<Bottleneck>},
    {152, {3, 8, 36, 3}, blueprint_of<Bottleneck>},
};

Stem choose_stem(const std::string& model, const std::string& name, const DataShape& shape) {
  constexpr std::int64_t kLargeImage = 64;
  const std::int64_t smaller = std::min(shape.input[1], shape.input[2]);
  if (name == "auto") return smaller >= kLargeImage ? Stem::kImagenet : Stem::kCifar;
  if (name == "imagenet") return Stem::kImagenet;
  if (name == "cifar") return Stem::kCifar;
  throw unknown_name(fmt::format("stem of {}", model), "model.stem", name, {"auto", "cifar", "imagenet"});
}

// A lane may hold a single sample, and batch norm cannot train on one value per channel.
void require_size(const std::string& model, Stem stem, const DataShape& shape) {
  const std::int64_t reduction = stem == Stem::kImagenet ? 32 : 8;
  if (shape.input[1] > reduction || shape.input[2] > reduction) return;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format(
          "model '{}' with stem '{}' shrinks images by a factor of {} and wants more than {} pixels one way, "
          "found images {}; use {}",
          model, stem == Stem::kImagenet ? "imagenet" : "cifar", reduction, reduction, to_string(shape.input),
          stem == Stem::kImagenet ? "stem = \"cifar\" or larger images" : "larger images, or mlp"));
}

}  // namespace

std::vector<OptionSpec> resnet_options() {
  return {{"stem", std::string("auto"),
           "cifar (3x3, stride 1), imagenet (7x7, stride 2, max-pool) or auto (imagenet from 64 pixels on)"},
          {"activation", std::string("relu"), "relu, leaky_relu, gelu, silu, tanh or elu"},
          {"dropout", 0.0, "probability of dropping an input of the last layer"}};
}

Blueprint resnet_blueprint(int depth, const OptionMap& options, const DataShape& shape) {
  const std::string model = fmt::format("resnet{}", depth);
  const auto* variant = std::find_if(std::begin(kVariants), std::end(kVariants),
                                     [depth](const Variant& each) { return each.depth == depth; });
  DISTBELIEF_INVARIANT(variant != std::end(kVariants));
  require_images(model, shape);
  const ResNetOptions resolved{.blocks = variant->blocks,
                               .stem = choose_stem(model, option<std::string>(options, "stem"), shape),
                               .activation = parse_activation(option<std::string>(options, "activation")),
                               .dropout = dropout_option(model, options),
                               .channels = shape.input[0],
                               .classes = shape.outputs()};
  require_size(model, resolved.stem, shape);
  return variant->blueprint(resolved);
}

}  // namespace distbelief::model
