#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <span>
#include <string>

#include "distbelief/base/array.h"
#include "distbelief/base/error.h"

// Where a network computes, and the border between there and this process's memory. Batches, initial weights,
// what goes to other workers and what people read are host memory; a network's tensors, its outputs and its
// losses are wherever its device keeps them. Sources that want the numbers themselves come here for them, and
// tools/check_includes says who else may ask a tensor for its address. On the CPU none of it copies.
namespace distbelief::model {

// What train.device names. Throws Error(kBadInput) for one that this version does not compute on.
torch::Device device_of(const std::string& name);

// The tensor on that device, the very same where it is there already: then a trace of a network sees nothing
// of it. An undefined one stays so.
torch::Tensor on_device(torch::Tensor tensor, const torch::Device& device);

// The tensor on the host and contiguous, the very same where it is that; a copy has no history.
torch::Tensor on_host(const torch::Tensor& tensor);

// Host memory as a tensor, borrowed. Who gives memory that is not his to change does not write to it.
torch::Tensor borrow_host(const void* data, const Shape& shape, torch::ScalarType type);

// The memory of a tensor that is on the host and contiguous by whoever made it: to fill a new one, or to hand
// one on. Borrowed.
std::span<std::byte> host_bytes(const torch::Tensor& tensor);
template <typename T>
std::span<T> host_elements(const torch::Tensor& tensor) {
  DISTBELIEF_INVARIANT(tensor.is_cpu() && tensor.is_contiguous());
  return {tensor.data_ptr<T>(), std::size_t(tensor.numel())};
}

// Overwrites a tensor, wherever it is, with as many bytes of the host, in the order of its elements. Autograd
// does not hear of it.
void write_from_host(const torch::Tensor& tensor, std::span<const std::byte> bytes);

// The elements of a tensor, wherever it is, in order, to be read on the host. Holds the memory that they are
// in.
template <typename T>
class HostValues {
 public:
  explicit HostValues(const torch::Tensor& tensor)
      : held_(on_host(tensor)),
        values_(host_elements<T>(held_)) {}

  const T* data() const { return values_.data(); }
  std::size_t size() const { return values_.size(); }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  const T& operator[](std::size_t index) const { return values_[index]; }

 private:
  torch::Tensor held_;
  std::span<const T> values_;
};

}  // namespace distbelief::model
