#pragma once

#include <torch/torch.h>

namespace distbelief::model {

// The largest of each 2 x 2 values of images, a row or column that is left over aside: torch::max_pool2d(input, 2)
// with the same bits forward and backward. On the CPU it takes a tenth of the time, trained or not:
// torch 1.13 looks at one value at a time, and keeps 8 bytes for each that it chose.
torch::Tensor max_pool_2x2(const torch::Tensor& input);

class MaxPool2x2 : public torch::nn::Module {
 public:
  torch::Tensor forward(const torch::Tensor& input) { return max_pool_2x2(input); }
};

}  // namespace distbelief::model
