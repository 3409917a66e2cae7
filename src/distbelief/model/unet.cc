#include "distbelief/model/unet.h"

#include <fmt/format.h>

#include "distbelief/base/error.h"
#include "distbelief/model/layers.h"
#include "distbelief/model/max_pool.h"
#include "distbelief/model/requirements.h"

namespace distbelief::model {
namespace {

// Shapes of the arrays that a flat array between two blocks holds in turn.
using Packed = std::vector<Shape>;

std::vector<torch::Tensor> unpack(const torch::Tensor& flat, const Packed& shapes) {
  std::vector<torch::Tensor> parts;
  std::int64_t begin = 0;
  for (const Shape& shape : shapes) {
    const std::int64_t count = element_count(shape);
    parts.push_back(flat.narrow(1, begin, count).reshape({-1, shape[0], shape[1], shape[2]}));
    begin += count;
  }
  return parts;
}

torch::Tensor pack(const std::vector<torch::Tensor>& parts) {
  std::vector<torch::Tensor> flat;
  for (const torch::Tensor& part : parts) flat.push_back(part.flatten(1));
  return flat.size() == 1 ? flat[0] : torch::cat(flat, 1);
}

class DoubleConvolution final : public torch::nn::Module {
 public:
  DoubleConvolution(std::int64_t inputs, std::int64_t outputs)
      : conv1_(register_module("conv1", convolution(inputs, outputs))),
        bn1_(register_module("bn1", torch::nn::BatchNorm2d(outputs))),
        conv2_(register_module("conv2", convolution(outputs, outputs))),
        bn2_(register_module("bn2", torch::nn::BatchNorm2d(outputs))) {}

  torch::Tensor forward(const torch::Tensor& input) {
    return activate_in_place(Activation::kRelu,
                             bn2_(conv2_(activate_in_place(Activation::kRelu, bn1_(conv1_(input))))));
  }

 private:
  static torch::nn::Conv2d convolution(std::int64_t inputs, std::int64_t outputs) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(inputs, outputs, 3).padding(1).bias(false));
  }
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d bn2_;
};

// Computes on the first array; passes the others on for the way up.
class UnetDown final : public Block {
 public:
  enum class Then { kPool, kStay };
  UnetDown(Packed input, std::int64_t outputs, Then then)
      : input_(std::move(input)),
        then_(then),
        convolutions_(
            register_module("convolutions", std::make_shared<DoubleConvolution>(input_[0][0], outputs))) {}

  torch::Tensor forward(torch::Tensor input) override {
    std::vector<torch::Tensor> parts = unpack(input.flatten(1), input_);
    parts[0] = convolutions_->forward(parts[0]);
    if (then_ == Then::kPool) parts.insert(parts.begin(), max_pool_2x2(parts[0]));
    return pack(parts);
  }

 private:
  Packed input_;
  Then then_;
  std::shared_ptr<DoubleConvolution> convolutions_;
};

// Doubles the size of the first array and joins it with the second.
class UnetUp final : public Block {
 public:
  explicit UnetUp(Packed input)
      : input_(std::move(input)),
        up_(register_module("up",
                            torch::nn::ConvTranspose2d(
                                torch::nn::ConvTranspose2dOptions(input_[0][0], input_[1][0], 2).stride(2)))),
        convolutions_(register_module("convolutions",
                                      std::make_shared<DoubleConvolution>(2 * input_[1][0], input_[1][0]))) {}

  torch::Tensor forward(torch::Tensor input) override {
    std::vector<torch::Tensor> parts = unpack(input, input_);
    parts[1] = convolutions_->forward(torch::cat({up_(parts[0]), parts[1]}, 1));
    parts.erase(parts.begin());
    return pack(parts);
  }

 private:
  Packed input_;
  torch::nn::ConvTranspose2d up_;
  std::shared_ptr<DoubleConvolution> convolutions_;
};

class UnetHead final : public Block {
 public:
  UnetHead(Packed input, std::int64_t classes)
      : input_(std::move(input)),
        head_(
            register_module("head", torch::nn::Conv2d(torch::nn::Conv2dOptions(input_[0][0], classes, 1)))) {}

  torch::Tensor forward(torch::Tensor input) override { return head_(unpack(input, input_)[0]); }

 private:
  Packed input_;
  torch::nn::Conv2d head_;
};

void require_divisible(const DataShape& shape, std::int64_t depth) {
  const std::int64_t factor = std::int64_t{1} << depth;
  if (depth < 20 && shape.input[1] % factor == 0 && shape.input[2] % factor == 0) return;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("model 'unet' with depth {} wants sides that are multiples of 2^{}, found images {}; "
                  "choose another depth",
                  depth, depth, to_string(shape.input)));
}

}  // namespace

std::vector<OptionSpec> unet_options() {
  return {{"width", std::int64_t{16}, "channels at full size; each halving doubles them"},
          {"depth", std::int64_t{2}, "how often the image is halved"}};
}

Blueprint unet_blueprint(const OptionMap& options, const DataShape& shape) {
  require_images("unet", shape);
  const std::int64_t width = positive_option("unet", options, "width");
  const std::int64_t depth = positive_option("unet", options, "depth");
  require_divisible(shape, depth);
  Blueprint blueprint;
  Packed now{shape.input};
  for (std::int64_t i = 0; i <= depth; ++i) {
    const std::int64_t channels = width << i;
    const auto then = i < depth ? UnetDown::Then::kPool : UnetDown::Then::kStay;
    blueprint.push_back({fmt::format("down.{}", i), [now, channels, then](const BlockSite&) {
                           return std::make_shared<UnetDown>(now, channels, then);
                         }});
    now[0][0] = channels;
    if (i < depth) now.insert(now.begin(), {channels, now[0][1] / 2, now[0][2] / 2});
  }
  for (std::int64_t i = depth; i > 0; --i) {
    blueprint.push_back(
        {fmt::format("up.{}", depth - i), [now](const BlockSite&) { return std::make_shared<UnetUp>(now); }});
    now.erase(now.begin());
  }
  blueprint.push_back({"", [now, classes = shape.outputs()](const BlockSite&) {
                         return std::make_shared<UnetHead>(now, classes);
                       }});
  return blueprint;
}

}  // namespace distbelief::model
