#include "distbelief/model/dcgan.h"

#include <fmt/format.h>

#include "distbelief/base/error.h"
#include "distbelief/model/device.h"
#include "distbelief/model/layers.h"
#include "distbelief/model/random.h"
#include "distbelief/model/requirements.h"

namespace distbelief::model {
namespace {

constexpr double kDeviation = 0.02;  // standard deviation of initial weights

struct DcganOptions {
  std::int64_t latent = 0;
  std::int64_t width = 0;
  Shape image;
};

// A layer before a batch norm has no bias of its own.
enum class Bias { kOwn, kOfNorm };

void initialise(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : module.named_parameters()) {
    if (parameter.key().find("bn") != std::string::npos) continue;
    if (parameter.value().dim() > 1) torch::nn::init::normal_(parameter.value(), 0.0, kDeviation);
  }
}

torch::nn::ConvTranspose2d twice_as_large(std::int64_t inputs, std::int64_t outputs, Bias bias) {
  return torch::nn::ConvTranspose2d(
      torch::nn::ConvTranspose2dOptions(inputs, outputs, 4).stride(2).padding(1).bias(bias == Bias::kOwn));
}

torch::nn::Conv2d half_as_large(std::int64_t inputs, std::int64_t outputs, Bias bias) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(inputs, outputs, 4).stride(2).padding(1).bias(bias == Bias::kOwn));
}

class GeneratorBlock final : public Block {
 public:
  explicit GeneratorBlock(const DcganOptions& options)
      : options_(options),
        fc_(register_module(
            "fc", torch::nn::Linear(
                      torch::nn::LinearOptions(options.latent, 2 * options.width * quarter()).bias(false)))),
        bn1_(register_module("bn1", torch::nn::BatchNorm2d(2 * options.width))),
        up1_(register_module("up1", twice_as_large(2 * options.width, options.width, Bias::kOfNorm))),
        bn2_(register_module("bn2", torch::nn::BatchNorm2d(options.width))),
        up2_(register_module("up2", twice_as_large(options.width, options.image[0], Bias::kOwn))) {
    initialise(*this);
  }

  torch::Tensor forward(torch::Tensor input) override {
    const torch::Tensor noise = input.dim() == 2 ? input : on_device(draw(input.size(0)), input.device());
    const torch::Tensor x =
        fc_(noise).view({-1, 2 * options_.width, options_.image[1] / 4, options_.image[2] / 4});
    return torch::sigmoid(up2_(
        activate_in_place(Activation::kRelu, bn2_(up1_(activate_in_place(Activation::kRelu, bn1_(x)))))));
  }

 private:
  std::int64_t quarter() const { return options_.image[1] / 4 * (options_.image[2] / 4); }
  torch::Tensor draw(std::int64_t samples) const {
    torch::Tensor noise = torch::empty({samples, options_.latent});
    if (auto generator = current_generator()) return noise.normal_(0, 1, *generator);
    return noise.normal_();
  }

  DcganOptions options_;
  torch::nn::Linear fc_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::ConvTranspose2d up1_;
  torch::nn::BatchNorm2d bn2_;
  torch::nn::ConvTranspose2d up2_;
};

class DiscriminatorBlock final : public Block {
 public:
  explicit DiscriminatorBlock(const DcganOptions& options)
      : conv1_(register_module("conv1", half_as_large(options.image[0], options.width, Bias::kOwn))),
        conv2_(register_module("conv2", half_as_large(options.width, 2 * options.width, Bias::kOfNorm))),
        bn2_(register_module("bn2", torch::nn::BatchNorm2d(2 * options.width))),
        fc_(register_module(
            "fc",
            torch::nn::Linear(2 * options.width * (options.image[1] / 4) * (options.image[2] / 4), 1))) {
    initialise(*this);
  }

  torch::Tensor forward(torch::Tensor input) override {
    const torch::Tensor x = torch::leaky_relu(conv1_(input), kSlope);
    return fc_(torch::leaky_relu(bn2_(conv2_(x)), kSlope).flatten(1));
  }

 private:
  static constexpr double kSlope = 0.2;
  torch::nn::Conv2d conv1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d bn2_;
  torch::nn::Linear fc_;
};

}  // namespace

std::vector<OptionSpec> dcgan_options() {
  return {{"latent", std::int64_t{64}, "numbers that an image is made from"},
          {"width", std::int64_t{32},
           "channels of the largest inner images; the smaller ones have twice as many"}};
}

torch::Tensor dcgan_noise(const OptionMap& options, std::int64_t samples) {
  return torch::randn({samples, option<std::int64_t>(options, "latent")});
}

Blueprint dcgan_blueprint(const OptionMap& options, const DataShape& shape) {
  require_images("dcgan", shape);
  if (shape.input[1] % 4 != 0 || shape.input[2] % 4 != 0)
    throw Error(ErrorCode::kBadInput,
                fmt::format("model 'dcgan' wants images whose sides are multiples of 4, found {}",
                            to_string(shape.input)));
  const DcganOptions resolved{.latent = positive_option("dcgan", options, "latent"),
                              .width = positive_option("dcgan", options, "width"),
                              .image = shape.input};
  Blueprint blueprint;
  blueprint.push_back(
      {"generator", [resolved](const BlockSite&) { return std::make_shared<GeneratorBlock>(resolved); }});
  blueprint.push_back({"discriminator", [resolved](const BlockSite&) {
                         return std::make_shared<DiscriminatorBlock>(resolved);
                       }});
  return blueprint;
}

}  // namespace distbelief::model
