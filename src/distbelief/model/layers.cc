#include "distbelief/model/layers.h"

#include <fmt/format.h>

#include <memory>

#include "distbelief/model/device.h"
#include "distbelief/model/random.h"
#include "distbelief/model/requirements.h"

namespace distbelief::model {
namespace {

struct ActivationEntry {
  const char* name;
  Activation activation;
};

constexpr ActivationEntry kActivations[] = {
    {"relu", Activation::kRelu}, {"leaky_relu", Activation::kLeakyRelu},
    {"gelu", Activation::kGelu}, {"tanh", Activation::kTanh},
    {"silu", Activation::kSilu}, {"elu", Activation::kElu},
};

}  // namespace

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  for (const ActivationEntry& entry : kActivations) names.emplace_back(entry.name);
  return names;
}

Activation parse_activation(const std::string& name) {
  for (const ActivationEntry& entry : kActivations) {
    if (name == entry.name) return entry.activation;
  }
  throw unknown_name("activation", "model.activation", name, activation_names());
}

torch::Tensor activate(Activation activation, const torch::Tensor& input) {
  switch (activation) {
    case Activation::kRelu: return torch::relu(input);
    case Activation::kLeakyRelu: return torch::leaky_relu(input);
    case Activation::kGelu: return torch::gelu(input);
    case Activation::kTanh: return torch::tanh(input);
    case Activation::kSilu: return torch::silu(input);
    case Activation::kElu: return torch::elu(input);
  }
  return input;
}

torch::Tensor activate_in_place(Activation activation, torch::Tensor input) {
  switch (activation) {
    case Activation::kRelu: return torch::relu_(input);
    case Activation::kLeakyRelu: return torch::leaky_relu_(input);
    case Activation::kTanh: return torch::tanh_(input);
    case Activation::kElu: return torch::elu_(input);
    case Activation::kGelu:
    case Activation::kSilu: break;
  }
  return activate(activation, input);
}

torch::Tensor Activate::forward(torch::Tensor input) {
  // A leaf may be the caller's own tensor, for example where a pipeline cuts the list of layers.
  return input.is_leaf() ? activate(activation_, input) : activate_in_place(activation_, std::move(input));
}

torch::Tensor Dropout::forward(torch::Tensor input) {
  if (!is_training() || probability_ == 0.0) return input;
  return input * on_device(fill(torch::empty_like(input, torch::kCPU)), input.device());
}

torch::Tensor Dropout::forward_slice(torch::Tensor input, SliceRange range, std::int64_t whole) {
  if (!is_training() || probability_ == 0.0) return input;
  Shape shape = input.sizes().vec();
  shape.back() = whole;
  const torch::Tensor mask = fill(torch::empty(shape, input.options().device(torch::kCPU)));
  return input * on_device(mask.narrow(-1, range.begin, range.count), input.device());
}

torch::Tensor Dropout::fill(torch::Tensor mask) const {
  const double keep = 1.0 - probability_;
  if (auto generator = current_generator()) {
    mask.bernoulli_(keep, *generator);
  } else {
    mask.bernoulli_(keep);
  }
  return mask.div_(keep);
}

torch::Tensor zeros_for(const torch::Tensor& input, std::int64_t width) {
  return torch::zeros_like(input.select(1, 0).narrow(1, 0, 1)).repeat({1, width});
}

void append_dense(torch::nn::Sequential& layers, const DenseOptions& options) {
  layers->push_back(fmt::format("fc{}", options.index), torch::nn::Linear(options.inputs, options.outputs));
  layers->push_back(fmt::format("act{}", options.index), std::make_shared<Activate>(options.activation));
  layers->push_back(fmt::format("drop{}", options.index), std::make_shared<Dropout>(options.dropout));
}

}  // namespace distbelief::model
