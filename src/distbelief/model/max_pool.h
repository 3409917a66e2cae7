#pragma once

#include <torch/torch.h>

namespace distbelief::model {

// The largest of each 2 x 2 values of images, ignoring an odd last row or column: torch::max_pool2d(input, 2)
// with the same bits forward and backward. Takes a tenth of the time on the CPU, in training and evaluation:
// torch 1.13 compares one value at a time and keeps 8 bytes per result.
torch::Tensor max_pool_2x2(const torch::Tensor& input);

class MaxPool2x2 : public torch::nn::Module {
 public:
  torch::Tensor forward(const torch::Tensor& input) { return max_pool_2x2(input); }
};

}  // namespace distbelief::model
