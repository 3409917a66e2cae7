#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace distbelief::model {

// Scaled dot-product attention of each head by itself (Vaswani et al., "Attention Is All You Need", 2017).
// `qkv` is [samples, length, 3 * width], the queries, keys and values of all heads side by side; the result
// is [samples, length, width]. `bias` is [length, length] or undefined; it is added to the weights before
// softmax: minus infinity where a position may not look.
//
// One sample at a time, so that the weights of its heads stay in the cache from the product that makes them
// to the one that uses them; heads are read and written where they lie. A network that is traced or described
// gets torch's operations on all samples at once instead, whose last bits differ.
torch::Tensor attention(const torch::Tensor& qkv, std::int64_t heads, const torch::Tensor& bias);

}  // namespace distbelief::model
