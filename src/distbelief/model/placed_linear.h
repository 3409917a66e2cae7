#pragma once

#include <torch/torch.h>

namespace distbelief::model {

// The final memory of parameter gradients. A layer that asks for it computes its gradient there, without a
// tensor of its own or a copy.
class GradientPlaces {
 public:
  virtual ~GradientPlaces() = default;
  // Memory for all elements of the parameter's gradient, in its order; null: none. Returned once per
  // backward. The layer that takes it must fill it and return no gradient of that parameter to autograd.
  virtual float* take(const torch::Tensor& parameter) = 0;
};

// RAII guard: sets the places for the backwards of this thread.
class GradientPlacesScope {
 public:
  explicit GradientPlacesScope(GradientPlaces* places);
  ~GradientPlacesScope();
  GradientPlacesScope(const GradientPlacesScope&) = delete;
  GradientPlacesScope& operator=(const GradientPlacesScope&) = delete;

 private:
  GradientPlaces* before_;
};

// torch::linear for a matrix of samples, with the same bits; writes the weight's gradient to its place.
torch::Tensor placed_linear(const torch::Tensor& input, const torch::Tensor& weight,
                            const torch::Tensor& bias);

}  // namespace distbelief::model
