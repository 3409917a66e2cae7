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

// The way around a block; empty where the block keeps the shape and its input is added as it is.
torch::nn::Sequential shortcut(const BlockOptions& options, std::int64_t outputs) {
  if (options.stride == 1 && options.inputs == outputs) return nullptr;
  return torch::nn::Sequential(convolution(options.inputs, outputs, 1, options.stride),
                               torch::nn::BatchNorm2d(outputs));
}

// Batch norm does not keep its result for backward, so the sum and the activation may overwrite it.
torch::Tensor join(Activation activation, torch::Tensor branch, torch::nn::Sequential& downsample,
                   const torch::Tensor& input) {
  branch.add_(downsample.is_empty() ? input : downsample->forward(input));
  return activate_in_place(activation, std::move(branch));
}

void initialise_convolutions(const torch::nn::Module& block) {
  for (const auto& module : block.modules(/*include_self=*/false))
    if (const auto* conv = module->as<torch::nn::Conv2d>())
      torch::nn::init::kaiming_normal_(conv->weight, 0.0, torch::kFanOut, torch::kReLU);
}

class BasicBlock final : public Block {
 public:
  static constexpr std::int64_t kExpansion = 1;

  explicit BasicBlock(const BlockOptions& options)
      : activation_(options.activation),
        conv1_(register_module("conv1", convolution(options.inputs, options.width, 3, options.stride))),
        bn1_(register_module("bn1", torch::nn::BatchNorm2d(options.width))),
        conv2_(register_module("conv2", convolution(options.width, options.width, 3, 1))),
        bn2_(register_module("bn2", torch::nn::BatchNorm2d(options.width))),
        downsample_(shortcut(options, options.width)) {
    if (!downsample_.is_empty()) register_module("downsample", downsample_);
    initialise_convolutions(*this);
  }

  torch::Tensor forward(torch::Tensor input) override {
    torch::Tensor x = activate_in_place(activation_, bn1_(conv1_(input)));
    return join(activation_, bn2_(conv2_(x)), downsample_, input);
  }

 private:
  Activation activation_;
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d bn2_;
  torch::nn::Sequential downsample_;
};

class Bottleneck final : public Block {
 public:
  static constexpr std::int64_t kExpansion = 4;

  explicit Bottleneck(const BlockOptions& options)
      : activation_(options.activation),
        conv1_(register_module("conv1", convolution(options.inputs, options.width, 1, 1))),
        bn1_(register_module("bn1", torch::nn::BatchNorm2d(options.width))),
        conv2_(register_module("conv2", convolution(options.width, options.width, 3, options.stride))),
        bn2_(register_module("bn2", torch::nn::BatchNorm2d(options.width))),
        conv3_(register_module("conv3", convolution(options.width, options.width * kExpansion, 1, 1))),
        bn3_(register_module("bn3", torch::nn::BatchNorm2d(options.width * kExpansion))),
        downsample_(shortcut(options, options.width * kExpansion)) {
    if (!downsample_.is_empty()) register_module("downsample", downsample_);
    initialise_convolutions(*this);
  }

  torch::Tensor forward(torch::Tensor input) override {
    torch::Tensor x = activate_in_place(activation_, bn1_(conv1_(input)));
    x = activate_in_place(activation_, bn2_(conv2_(x)));
    return join(activation_, bn3_(conv3_(x)), downsample_, input);
  }

 private:
  Activation activation_;
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d bn2_;
  torch::nn::Conv2d conv3_;
  torch::nn::BatchNorm2d bn3_;
  torch::nn::Sequential downsample_;
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
    for (int b = 0; b < options.blocks[i]; ++b) {  // only the first of a stage changes the shape
      const BlockOptions block{.inputs = inputs,
                               .width = kWidth << i,
                               .stride = i > 0 && b == 0 ? 2 : 1,
                               .activation = options.activation};
      blueprint.push_back({fmt::format("layer{}.{}", i + 1, b),
                           [block](const BlockSite&) { return std::make_shared<Residual>(block); }});
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
  throw unknown_name(fmt::format("stem of {}", model), name, {"auto", "cifar", "imagenet"});
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

Activation resnet_activation(const std::string& model, const std::string& name) {
  const Activation activation = parse_activation(name);
  if (activation == Activation::kRelu || activation == Activation::kLeakyRelu) return activation;
  throw unknown_name(fmt::format("activation of {}", model), name, {"relu", "leaky_relu"});
}

}  // namespace

std::vector<OptionSpec> resnet_options() {
  return {{"stem", std::string("auto"),
           "cifar (3x3, stride 1), imagenet (7x7, stride 2, max-pool) or auto (imagenet from 64 pixels on)"},
          {"activation", std::string("relu"), "relu or leaky_relu"},
          {"dropout", 0.0, "probability of dropping an input of the last layer"}};
}

Blueprint resnet_blueprint(int depth, const OptionMap& options, const DataShape& shape) {
  const std::string model = fmt::format("resnet{}", depth);
  const auto* variant = std::find_if(std::begin(kVariants), std::end(kVariants),
                                     [depth](const Variant& each) { return each.depth == depth; });
  DISTBELIEF_INVARIANT(variant != std::end(kVariants));
  require_images(model, shape);
  const ResNetOptions resolved{
      .blocks = variant->blocks,
      .stem = choose_stem(model, option<std::string>(options, "stem"), shape),
      .activation = resnet_activation(model, option<std::string>(options, "activation")),
      .dropout = dropout_option(model, options),
      .channels = shape.input[0],
      .classes = shape.classes};
  require_size(model, resolved.stem, shape);
  return variant->blueprint(resolved);
}

}  // namespace distbelief::model
