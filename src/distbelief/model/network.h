#pragma once

#include <torch/torch.h>

#include <utility>

namespace distbelief::model {

// A network: forward takes a batch of inputs, gives logits: [batch, classes], or
// [batch * length, vocabulary] for tokens. Parameters and buffers are torch's own registrations.
class Network : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor input) = 0;
};

// A network that is a plain list of layers, which may be cut anywhere in between.
class SequentialNetwork : public Network {
 public:
  explicit SequentialNetwork(torch::nn::Sequential layers)
      : layers_(register_module("layers", std::move(layers))) {}

  torch::Tensor forward(torch::Tensor input) override { return layers_->forward(std::move(input)); }
  const torch::nn::Sequential& layers() const { return layers_; }

 private:
  torch::nn::Sequential layers_;
};

}  // namespace distbelief::model
