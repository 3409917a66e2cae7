#pragma once

#include "distbelief/base/array.h"
#include "distbelief/model/network.h"

namespace distbelief::model {

// The small classifier whose loss trains a sub-network other than the last of its model, so that it needs no
// gradient from later ones (Belilovsky et al., "Decoupled Greedy Learning of CNNs", 2020). It averages images
// down to 4 x 4 and applies a linear layer. In training it is the last block of its sub-network and outputs
// what the task needs; in evaluation it passes its input through.
class LocalHead final : public Block {
 public:
  // `number`: the index of its sub-network; `input`: shape of a sample, [features] or [channels, height,
  // width].
  LocalHead(int number, const Shape& input, std::int64_t outputs);

  torch::Tensor forward(torch::Tensor input) override;
  // The input of the last training forward, detached: the sub-network's output.
  const torch::Tensor& given() const { return given_; }

 private:
  torch::nn::Linear fc_{nullptr};
  torch::Tensor given_;
};

}  // namespace distbelief::model
