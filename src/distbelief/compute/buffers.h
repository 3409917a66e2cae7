#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace distbelief::compute {

// The buffers of a module (running statistics) as one run of floats, so that lanes can start from the
// same ones and their results be averaged. In the order of registration, so those of a run of blocks are a
// run of the whole network's. Floating buffers are taken as they are; integer counters as two floats each,
// up to 2^44, exact as long as the lanes agree on them, else the mean rounded.
class BufferSet {
 public:
  explicit BufferSet(const torch::nn::Module& module);

  std::size_t size() const { return size_; }  // floats
  void read(std::span<float> out) const;
  void write(std::span<const float> in);

 private:
  std::vector<torch::Tensor> buffers_;
  std::vector<std::int64_t> counts_;  // of one buffer, on their way there
  std::size_t size_ = 0;
};

}  // namespace distbelief::compute
