#pragma once

#include <torch/script.h>

#include <memory>

#include "distbelief/model/network.h"
#include "distbelief/model/random.h"

namespace distbelief::model {

// A TorchScript module as a block. Its tensors are registered under their own names; module and registrations
// share them, so whoever moves a parameter's memory moves the module's. Used by one thread at a time; blocks
// that draw randomness take turns in a process, because torch has one generator for them.
class ScriptBlock final : public Block {
 public:
  explicit ScriptBlock(torch::jit::Module script);
  torch::Tensor forward(torch::Tensor input) override;
  const torch::jit::Module& script() const { return script_; }

 private:
  torch::Tensor run(torch::Tensor input);

  torch::jit::Module script_;
  std::atomic<Draws> draws_;                 // dropout and the like
  std::shared_ptr<torch::nn::Module> mode_;  // told whether the network trains; the script follows
};

}  // namespace distbelief::model
