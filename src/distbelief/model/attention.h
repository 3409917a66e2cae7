#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace distbelief::model {

// Scaled dot-product attention, for each head separately (Vaswani et al., "Attention Is All You Need", 2017).
// `qkv` is [samples, length, 3 * width]: the queries, keys and values of all heads side by side. The result
// is [samples, length, width]. `bias` is [length, length] or undefined; it is added to the weights before
// softmax, with minus infinity where a position may not look.
//
// Computes one sample at a time, so that the weights of its heads stay in the cache between the two products,
// and reads and writes heads in place. A network that is traced or described uses torch's operations on all
// samples at once, whose last bits differ.
torch::Tensor attention(const torch::Tensor& qkv, std::int64_t heads, const torch::Tensor& bias);

}  // namespace distbelief::model
