#include "distbelief/checkpoint/tensor_copy.h"

#include <fmt/format.h>

#include <cstring>
#include <new>

#include "distbelief/base/error.h"

namespace distbelief::checkpoint {
namespace {

// Each tensor begins on a cache line.
constexpr std::size_t kAlignment = 64;

std::size_t room_for(const TensorView& tensor) {
  return (tensor.byte_count() + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

void TensorCopy::reserve(std::size_t bytes) {
  if (bytes <= capacity_bytes_) return;
  memory_.reset();  // first, so that both are never held at once
  capacity_bytes_ = 0;
  try {
    memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kUnavailable,
                fmt::format("there is no memory for a copy of the training state, {} bytes; free some on "
                            "this host, or train a smaller model",
                            bytes));
  }
  capacity_bytes_ = bytes;
}

std::span<const TensorView> TensorCopy::assign(std::span<const TensorView> tensors) {
  std::size_t bytes = 0;
  for (const TensorView& tensor : tensors) bytes += room_for(tensor);
  views_.clear();
  reserve(bytes);
  std::byte* next = memory_.get();
  for (const TensorView& tensor : tensors) {
    if (tensor.byte_count() > 0) std::memcpy(next, tensor.data, tensor.byte_count());
    if (tensor.done) tensor.done(tensor);
    views_.push_back(tensor);
    views_.back().data = next;
    views_.back().done = nullptr;
    next += room_for(tensor);
  }
  return views_;
}

}  // namespace distbelief::checkpoint
