#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "distbelief/base/slice.h"

namespace distbelief::model {

enum class Activation { kRelu, kLeakyRelu, kGelu, kTanh, kSilu, kElu };

std::vector<std::string> activation_names();
Activation parse_activation(const std::string& name);  // throws Error(kBadInput) with the nearest name

torch::Tensor activate(Activation activation, const torch::Tensor& input);
// Overwrites `input` when the derivative follows from the result alone, else makes a new tensor. For the
// fresh result of a layer that does not keep it for backward: linear, convolution, batch norm.
torch::Tensor activate_in_place(Activation activation, torch::Tensor input);

// An activation as a layer. Reuses its input's memory when that is an intermediate result of training.
class Activate : public torch::nn::Module {
 public:
  explicit Activate(Activation activation) : activation_(activation) {}
  torch::Tensor forward(torch::Tensor input);

 private:
  Activation activation_;
};

// Zeroes each element with the given probability and scales the rest by 1 / (1 - probability); the identity
// in evaluation. Draws from current_generator(), unlike torch's own layer, so that lanes on several threads
// of a process have separate randomness.
class Dropout : public torch::nn::Module {
 public:
  explicit Dropout(double probability) : probability_(probability) {}  // in [0, 1)
  torch::Tensor forward(torch::Tensor input);
  // For a slice of the last dimension: drops the same elements as for the whole tensor.
  torch::Tensor forward_slice(torch::Tensor input, SliceRange range, std::int64_t whole);

 private:
  torch::Tensor fill(torch::Tensor mask) const;
  double probability_;
};

// Zeros [samples, width] for an input [samples, length, features], computed from it so that a trace holds for
// any number of samples.
torch::Tensor zeros_for(const torch::Tensor& input, std::int64_t width);

// Appends "fc<index>", "act<index>" and "drop<index>" to a list of layers.
struct DenseOptions {
  int index = 1;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  Activation activation = Activation::kRelu;
  double dropout = 0.0;
};
void append_dense(torch::nn::Sequential& layers, const DenseOptions& options);

}  // namespace distbelief::model
