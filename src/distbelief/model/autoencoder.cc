#include "distbelief/model/autoencoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "distbelief/base/error.h"
#include "distbelief/model/device.h"
#include "distbelief/model/layers.h"
#include "distbelief/model/random.h"
#include "distbelief/model/requirements.h"

namespace distbelief::model {
namespace {

enum class CodeKind { kPlain, kVariational };

struct CoderOptions {
  std::int64_t code = 0;
  CodeKind kind = CodeKind::kPlain;
  std::int64_t carried() const { return kind == CodeKind::kPlain ? code : 2 * code; }
};

// Maps features to [decoder input | code]. Later blocks pass the code on to the end of the network.
class CodeBlock final : public Block {
 public:
  CodeBlock(std::int64_t inputs, const CoderOptions& options)
      : options_(options),
        code_(register_module("code", torch::nn::Linear(inputs, options.carried()))) {}

  torch::Tensor forward(torch::Tensor input) override {
    const torch::Tensor code = code_(input.flatten(1));
    if (options_.kind == CodeKind::kPlain) return torch::cat({code, code}, 1);
    const torch::Tensor mean = code.narrow(1, 0, options_.code);
    // Asks the layer: the block itself is not told of the network's training mode.
    if (!code_->is_training()) return torch::cat({mean, code}, 1);
    torch::Tensor noise = torch::empty_like(mean, torch::kCPU);
    if (auto generator = current_generator())
      noise.normal_(0, 1, *generator);
    else
      noise.normal_();
    const torch::Tensor deviation = (code.narrow(1, options_.code, options_.code) * 0.5).exp();
    return torch::cat({mean + deviation * on_device(noise, mean.device()), code}, 1);
  }

 private:
  CoderOptions options_;
  torch::nn::Linear code_;
};

// One layer and its activation. In the decoder it computes on the first columns of its input and passes the
// code on.
struct CoderLayer {
  std::string name;
  std::function<torch::nn::AnyModule()> make;
  Shape input;               // of one sample, as the layer expects it
  std::int64_t carried = 0;  // columns passed on unchanged
  bool is_last = false;      // no activation follows
  Activation activation = Activation::kRelu;
};

class CoderBlock final : public Block {
 public:
  explicit CoderBlock(const CoderLayer& layer) : layer_(layer), module_(layer.make()) {
    register_module(layer.name, module_.ptr());
    layer_.input.insert(layer_.input.begin(), -1);
  }

  torch::Tensor forward(torch::Tensor input) override {
    if (layer_.carried == 0) return run(input);
    const std::int64_t own = input.size(1) - layer_.carried;
    return torch::cat({run(input.narrow(1, 0, own)).flatten(1), input.narrow(1, own, layer_.carried)}, 1);
  }

 private:
  torch::Tensor run(const torch::Tensor& input) {
    torch::Tensor x = module_.forward(input.reshape(layer_.input));
    return layer_.is_last ? x : activate_in_place(layer_.activation, std::move(x));
  }

  CoderLayer layer_;
  torch::nn::AnyModule module_;
};

void append(Blueprint& blueprint, const char* path, const CoderLayer& layer) {
  blueprint.push_back({path, [layer](const BlockSite&) { return std::make_shared<CoderBlock>(layer); }});
}

void append_code(Blueprint& blueprint, std::int64_t inputs, const CoderOptions& coder) {
  blueprint.push_back(
      {"", [inputs, coder](const BlockSite&) { return std::make_shared<CodeBlock>(inputs, coder); }});
}

CoderLayer dense_layer(std::size_t index, std::int64_t inputs, std::int64_t outputs, Activation activation) {
  return {.name = fmt::format("fc{}", index),
          .make = [inputs, outputs] { return torch::nn::AnyModule(torch::nn::Linear(inputs, outputs)); },
          .input = {inputs},
          .activation = activation};
}

Blueprint dense_coder(const std::vector<std::int64_t>& hidden, const CoderOptions& coder,
                      Activation activation, const DataShape& shape) {
  std::vector<std::int64_t> widths{element_count(shape.input)};
  widths.insert(widths.end(), hidden.begin(), hidden.end());
  Blueprint blueprint;
  for (std::size_t i = 1; i < widths.size(); ++i)
    append(blueprint, "encoder", dense_layer(i, widths[i - 1], widths[i], activation));
  append_code(blueprint, widths.back(), coder);
  std::reverse(widths.begin(), widths.end());
  widths.insert(widths.begin(), coder.code);
  for (std::size_t i = 1; i < widths.size(); ++i) {
    CoderLayer layer = dense_layer(i, widths[i - 1], widths[i], activation);
    layer.carried = coder.carried();
    layer.is_last = i + 1 == widths.size();
    append(blueprint, "decoder", layer);
  }
  return blueprint;
}

constexpr std::int64_t kCoderKernel = 3;
std::int64_t halved(std::int64_t side) { return (side + 1) / 2; }

torch::nn::AnyModule down(std::int64_t inputs, std::int64_t outputs) {
  return torch::nn::AnyModule(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(inputs, outputs, kCoderKernel).stride(2).padding(1)));
}

// Output padding restores sides that were odd.
torch::nn::AnyModule up(const Shape& from, const Shape& to) {
  return torch::nn::AnyModule(torch::nn::ConvTranspose2d(
      torch::nn::ConvTranspose2dOptions(from[0], to[0], kCoderKernel)
          .stride(2)
          .padding(1)
          .output_padding({to[1] - (2 * from[1] - 1), to[2] - (2 * from[2] - 1)})));
}

Blueprint convolution_coder(const std::vector<std::int64_t>& hidden, const CoderOptions& coder,
                            Activation activation, const DataShape& shape) {
  std::vector<Shape> shapes{shape.input};
  Blueprint blueprint;
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    const Shape from = shapes.back();
    shapes.push_back({hidden[i], halved(from[1]), halved(from[2])});
    append(blueprint, "encoder",
           {.name = fmt::format("conv{}", i + 1),
            .make = [from, to = hidden[i]] { return down(from[0], to); },
            .input = from,
            .activation = activation});
  }
  const std::int64_t flat = element_count(shapes.back());
  append_code(blueprint, flat, coder);
  CoderLayer first = dense_layer(1, coder.code, flat, activation);
  first.carried = coder.carried();
  append(blueprint, "decoder", first);
  for (std::size_t i = shapes.size() - 1; i > 0; --i)
    append(blueprint, "decoder",
           {.name = fmt::format("up{}", i),
            .make = [from = shapes[i], to = shapes[i - 1]] { return up(from, to); },
            .input = shapes[i],
            .carried = coder.carried(),
            .is_last = i == 1,
            .activation = activation});
  return blueprint;
}

Blueprint coder_blueprint(const std::string& model, CodeKind kind, const OptionMap& options,
                          const DataShape& shape) {
  const std::string layers = option<std::string>(options, "layers");
  const CoderOptions coder{.code = positive_option(model, options, "code"), .kind = kind};
  const std::vector<std::int64_t> hidden = positive_list_option(model, options, "hidden");
  if (const auto clusters = option<std::int64_t>(options, "clusters"); clusters < 0)
    throw Error(ErrorCode::kBadInput,
                fmt::format("model '{}': option 'clusters' must be 0 or more, found {}", model, clusters),
                {.key = "model.clusters"});
  const Activation activation = parse_activation(option<std::string>(options, "activation"));
  if (layers == "dense") {
    require_dense(model, shape);
    return dense_coder(hidden, coder, activation, shape);
  }
  if (layers != "convolution")
    throw unknown_name(fmt::format("kind of layers of {}", model), "model.layers", layers,
                       {"dense", "convolution"});
  require_images(model, shape);
  return convolution_coder(hidden, coder, activation, shape);
}

}  // namespace

std::vector<OptionSpec> autoencoder_options() {
  return {
      {"layers", std::string("dense"), "dense or convolution"},
      {"hidden", std::vector<std::int64_t>{256, 64},
       "widths of the encoder's layers (channels of its convolutions, each halving the image); the decoder "
       "mirrors them"},
      {"code", std::int64_t{16}, "numbers that a sample becomes"},
      {"clusters", std::int64_t{0},
       "groups that the codes of test samples are put in at the end; 0: as many as classes"},
      {"activation", std::string("relu"), "relu, leaky_relu, gelu, tanh, silu or elu"}};
}

std::vector<OptionSpec> vae_options() {
  std::vector<OptionSpec> options = autoencoder_options();
  options.push_back({"beta", 1.0, "weight of the distance between the codes' distribution and the prior"});
  return options;
}

Blueprint autoencoder_blueprint(const OptionMap& options, const DataShape& shape) {
  return coder_blueprint("autoencoder", CodeKind::kPlain, options, shape);
}

Blueprint vae_blueprint(const OptionMap& options, const DataShape& shape) {
  return coder_blueprint("vae", CodeKind::kVariational, options, shape);
}

}  // namespace distbelief::model
