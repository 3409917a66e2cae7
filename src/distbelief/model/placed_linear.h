#pragma once

#include <torch/torch.h>

namespace distbelief::model {

// Where the gradients of parameters are wanted in the end. A layer that asks for such a place computes its
// gradient there, and neither a tensor of its own nor a copy is needed.
class GradientPlaces {
 public:
  virtual ~GradientPlaces() = default;
  // Memory for all elements of the parameter's gradient, in its order; null where there is none. Given once
  // in a backward. Who takes it fills it, and gives autograd no gradient of that parameter.
  virtual float* take(const torch::Tensor& parameter) = 0;
};

// The places of the backwards that this thread runs while it lives.
class GradientPlacesScope {
 public:
  explicit GradientPlacesScope(GradientPlaces* places);
  ~GradientPlacesScope();
  GradientPlacesScope(const GradientPlacesScope&) = delete;
  GradientPlacesScope& operator=(const GradientPlacesScope&) = delete;

 private:
  GradientPlaces* before_;
};

// torch::linear of a matrix of samples, with its bits, whose weight's gradient goes to its place.
torch::Tensor placed_linear(const torch::Tensor& input, const torch::Tensor& weight,
                            const torch::Tensor& bias);

}  // namespace distbelief::model
