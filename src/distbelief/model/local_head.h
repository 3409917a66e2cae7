#pragma once

#include "distbelief/base/array.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// The small classifier by whose loss a sub-network that is not the last of its model is trained, so that it
// needs no gradient of those after it (Belilovsky et al., "Decoupled Greedy Learning of CNNs", 2020): images
// are averaged down to 4 x 4, then comes a linear layer. While it trains it stands at the end of its
// sub-network and gives what the task asks for; in a network that predicts it leaves its input as it is.
class LocalHead final : public Block {
 public:
  // `number` is that of its sub-network; `input` of a sample: [features] or [channels, height, width].
  LocalHead(int number, const Shape& input, std::int64_t outputs);

  torch::Tensor forward(torch::Tensor input) override;
  // What came in when it last trained, without its graph: the sub-network's output.
  const torch::Tensor& given() const { return given_; }

 private:
  torch::nn::Linear fc_{nullptr};
  torch::Tensor given_;
};

}  // namespace distbelief::model
