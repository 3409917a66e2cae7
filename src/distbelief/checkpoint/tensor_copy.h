#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "distbelief/checkpoint/safetensors.h"

namespace distbelief::checkpoint {

// A copy of tensors in memory of its own, which is kept from one copy to the next. Not thread-safe.
class TensorCopy {
 public:
  // The views are of the copy, in the same order, and hold until the next call. Throws Error(kUnavailable)
  // when there is no memory for it.
  std::span<const TensorView> assign(std::span<const TensorView> tensors);

  std::size_t capacity_bytes() const { return capacity_bytes_; }

 private:
  void reserve(std::size_t bytes);

  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_bytes_ = 0;
  std::vector<TensorView> views_;
};

}  // namespace distbelief::checkpoint
