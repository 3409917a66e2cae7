#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "distbelief/checkpoint/safetensors.h"

namespace distbelief::checkpoint {

// A copy of tensors in its own memory, which is reused from copy to copy. Not thread-safe.
class TensorCopy {
 public:
  // Copies the tensors; returns views of the copy in the same order, valid until the next call. Throws
  // Error(kUnavailable) when there is not enough memory.
  std::span<const TensorView> assign(std::span<const TensorView> tensors);

  std::size_t capacity_bytes() const { return capacity_bytes_; }

 private:
  void reserve(std::size_t bytes);

  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_bytes_ = 0;
  std::vector<TensorView> views_;
};

}  // namespace distbelief::checkpoint
