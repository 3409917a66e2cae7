#pragma once

#include <torch/script.h>

#include <memory>

#include "distbelief/model/network.h"
#include "distbelief/model/random.h"

namespace distbelief::model {

// A TorchScript module as a block. Its tensors are registered under their own names and shared with the
// module, so moving a parameter's memory also moves the module's. Used by one thread at a time. Blocks that
// draw randomness take turns in a process, because torch has one generator for them.
class ScriptBlock final : public Block {
 public:
  explicit ScriptBlock(torch::jit::Module script);
  torch::Tensor forward(torch::Tensor input) override;
  const torch::jit::Module& script() const { return script_; }

 private:
  torch::Tensor run(torch::Tensor input);

  torch::jit::Module script_;
  std::atomic<Draws> draws_;                 // from dropout and the like
  std::shared_ptr<torch::nn::Module> mode_;  // follows the network's training mode
};

}  // namespace distbelief::model
