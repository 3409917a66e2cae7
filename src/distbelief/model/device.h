#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <span>
#include <string>

#include "distbelief/base/array.h"
#include "distbelief/base/error.h"

// The device of a network, and the border between it and host memory. Batches, initial weights, messages to
// other workers and reports are host memory; a network's tensors, outputs and losses are on its device.
// Sources that need the numbers themselves use these functions; tools/check_includes lists the other sources
// that may ask a tensor for its address. On the CPU nothing is copied.
namespace distbelief::model {

// The device that train.device names. Throws Error(kBadInput) for an unsupported one.
torch::Device device_of(const std::string& name);

// The tensor on that device; the same tensor when it is already there, so traces of a network do not record
// the call. An undefined tensor stays undefined.
torch::Tensor on_device(torch::Tensor tensor, const torch::Device& device);

// The tensor on the host and contiguous; the same tensor when it is both. A copy has no autograd history.
torch::Tensor on_host(const torch::Tensor& tensor);

// A tensor that borrows host memory. A caller that passes read-only memory must not write to the tensor.
torch::Tensor borrow_host(const void* data, const Shape& shape, torch::ScalarType type);

// The memory of a tensor that is known to be on the host and contiguous, to fill it or pass it on. Borrowed.
std::span<std::byte> host_bytes(const torch::Tensor& tensor);
template <typename T>
std::span<T> host_elements(const torch::Tensor& tensor) {
  DISTBELIEF_INVARIANT(tensor.is_cpu() && tensor.is_contiguous());
  return {tensor.data_ptr<T>(), std::size_t(tensor.numel())};
}

// Overwrites a tensor on any device with as many host bytes, in element order. Autograd does not record it.
void write_from_host(const torch::Tensor& tensor, std::span<const std::byte> bytes);

// The elements of a tensor on any device, in order, for reading on the host. Owns their memory.
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
