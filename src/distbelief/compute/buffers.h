#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace distbelief::compute {

// The buffers of a module (running statistics) as one run of floats, so that lanes start from the same values
// and their results can be averaged. Buffers are in registration order, so those of consecutive blocks are
// consecutive in the whole network's. Floating buffers are copied as they are. An integer counter takes two
// floats and is exact up to 2^44 when the lanes agree on it; otherwise the rounded mean.
class BufferSet {
 public:
  explicit BufferSet(const torch::nn::Module& module);

  std::size_t size() const { return size_; }  // floats
  void read(std::span<float> out) const;
  void write(std::span<const float> in);

 private:
  std::vector<torch::Tensor> buffers_;
  std::vector<std::int64_t> counts_;  // scratch for write(), sized for one buffer
  std::size_t size_ = 0;
};

}  // namespace distbelief::compute
