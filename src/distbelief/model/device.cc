#include "distbelief/model/device.h"

#include <fmt/format.h>

#include <cstring>

namespace distbelief::model {

torch::Device device_of(const std::string& name) {
  if (name == "cpu") return torch::kCPU;
  throw Error(ErrorCode::kBadInput,
              fmt::format("train.device must be cpu, found '{}'; this version computes on the CPU", name),
              {.key = "train.device"});
}

torch::Tensor on_device(torch::Tensor tensor, const torch::Device& device) {
  return !tensor.defined() || tensor.device() == device ? tensor : tensor.to(device);
}

torch::Tensor on_host(const torch::Tensor& tensor) {
  const torch::NoGradGuard no_grad;
  return on_device(tensor, torch::kCPU).contiguous();
}

torch::Tensor borrow_host(const void* data, const Shape& shape, torch::ScalarType type) {
  return torch::from_blob(const_cast<void*>(data), shape, type);  // torch knows only mutable memory
}

std::span<std::byte> host_bytes(const torch::Tensor& tensor) {
  DISTBELIEF_INVARIANT(tensor.is_cpu() && tensor.is_contiguous());
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

void write_from_host(const torch::Tensor& tensor, std::span<const std::byte> bytes) {
  DISTBELIEF_INVARIANT(bytes.size() == tensor.nbytes());
  if (bytes.empty()) return;
  if (tensor.is_cpu() && tensor.is_contiguous())
    std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  else  // uses an alias with its own version, so that autograd sees no change either
    tensor.variable_data().copy_(borrow_host(bytes.data(), tensor.sizes().vec(), tensor.scalar_type()));
}

}  // namespace distbelief::model
