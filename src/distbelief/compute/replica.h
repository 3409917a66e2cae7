#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "distbelief/compute/layout.h"

namespace distbelief::compute {

// The trainable parameters of a module in registration order, as the layout wants them.
// Throws Error(kBadInput) for a parameter that is not float32 on the CPU.
std::vector<Layout::Parameter> trainable_parameters(const torch::nn::Module& module);

// Copies a module's parameters into an arena: those that the layout names.
void copy_parameters(const torch::nn::Module& module, const Layout& layout, float* arena);

// Makes the parameters of `part`, a part of `whole`, views into an arena: those that the layout names, under
// their names in `whole`. Their values go there only where the arena is `owned`.
struct ArenaPlace {
  float* arena = nullptr;
  std::span<const Span> owned;
};
void move_parameters(const torch::nn::Module& part, const torch::nn::Module& whole, const Layout& layout,
                     const ArenaPlace& place);

// A module whose parameters are views into an arena, and whose gradients are handed on one by one as
// backward finishes them; it keeps no gradients itself. The arena outlives it. The module stays usable
// as it was; the views end with the arena. Used by one thread.
class Replica {
 public:
  // `values` are the gradient's elements in the parameter's own order; valid during the call.
  using GradientSink = std::function<void(int parameter, const float* values)>;
  // Where the elements may be written at once, to be given to the sink there; null: nowhere.
  using GradientPlace = std::function<float*(int parameter)>;

  // A null arena leaves the parameters where they are. Parameters that the layout does not name stay the
  // module's own, and get their gradients as torch does it.
  Replica(std::shared_ptr<torch::nn::Module> module, const Layout& layout, float* arena);
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  torch::nn::Module& module() { return *module_; }
  std::vector<torch::Tensor>& parameters() { return parameters_; }  // the trainable ones, in order
  // The first of them that somebody has given other memory than the arena; -1: none.
  int moved_away() const;
  // Runs backward from `output` with this gradient of it; every parameter that gets a gradient is given to
  // `sink` once. Layers that can compute theirs in place do so where `place` has one. Gradients that the
  // parameters have already are dropped first.
  void backward(const torch::Tensor& output, const torch::Tensor& gradient, const GradientSink& sink,
                const GradientPlace& place = {});
  // The same from `factor` * `loss`.
  void backward(const torch::Tensor& loss, float factor, const GradientSink& sink,
                const GradientPlace& place = {}) {
    backward(loss, torch::full_like(loss, factor), sink, place);
  }

 private:
  class Hook;
  class Places;
  struct Route {
    const GradientSink* sink = nullptr;  // of the backward that runs now
    std::vector<float*> placed;          // by parameter: where its gradient was computed in that one
  };
  std::shared_ptr<torch::nn::Module> module_;
  std::vector<torch::Tensor> parameters_;
  std::vector<const float*> places_;                         // of each in the arena; none without one
  std::unordered_map<const c10::TensorImpl*, int> numbers_;  // of the parameters
  // Gradient accumulators live only as long as somebody holds them.
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;
  std::shared_ptr<Route> route_;  // shared with the hooks
};

}  // namespace distbelief::compute
