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

// Copies the parameters that the layout names from a module into an arena.
void copy_parameters(const torch::nn::Module& module, const Layout& layout, float* arena);

// Makes parameters of `part`, a part of `whole`, views into an arena: those that the layout names, by their
// names in `whole`. Copies their values only where the arena is `owned`.
struct ArenaPlace {
  float* arena = nullptr;
  std::span<const Span> owned;
};
void move_parameters(const torch::nn::Module& part, const torch::nn::Module& whole, const Layout& layout,
                     const ArenaPlace& place);

// A module whose parameters are views into an arena. Its gradients go to a sink one by one as backward
// finishes them; the module keeps none. The arena must outlive it. The module stays usable as before; the
// views become invalid with the arena. Used by one thread.
class Replica {
 public:
  // `values` are the gradient's elements in the parameter's own order; valid during the call.
  using GradientSink = std::function<void(int parameter, const float* values)>;
  // Memory into which the gradient's elements may be written directly, for the sink to receive; null: none.
  using GradientPlace = std::function<float*(int parameter)>;

  // A null arena leaves the parameters where they are. Parameters that the layout does not name stay the
  // module's own and get their gradients from torch as usual.
  Replica(std::shared_ptr<torch::nn::Module> module, const Layout& layout, float* arena);
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  torch::nn::Module& module() { return *module_; }
  std::vector<torch::Tensor>& parameters() { return parameters_; }  // the trainable ones, in order
  // The first parameter whose memory is no longer in the arena; -1: none.
  int moved_away() const;
  // Runs backward from `output` with this gradient of it and passes each parameter's gradient to `sink` once.
  // Layers that support it compute theirs directly in `place`. Drops existing gradients of the parameters
  // first.
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
    const GradientSink* sink = nullptr;  // sink of the running backward; else null
    std::vector<float*> placed;          // by parameter: where the running backward placed its gradient
  };
  std::shared_ptr<torch::nn::Module> module_;
  std::vector<torch::Tensor> parameters_;
  std::vector<const float*> places_;  // parameters in the arena; empty without an arena
  std::unordered_map<const c10::TensorImpl*, int> numbers_;  // parameter numbers
  // The graph alone does not keep the gradient accumulators alive.
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;
  std::shared_ptr<Route> route_;  // shared with the hooks
};

}  // namespace distbelief::compute
