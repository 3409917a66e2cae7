#include "distbelief/compute/buffers.h"

#include <cmath>
#include <cstring>

#include "distbelief/base/error.h"

namespace distbelief::compute {
namespace {

constexpr std::int64_t kLow = std::int64_t{1} << 20;

}  // namespace

BufferSet::BufferSet(const torch::nn::Module& module) {
  for (const auto& item : module.named_buffers()) {
    const torch::Tensor& buffer = item.value();
    if (buffer.scalar_type() == torch::kFloat32 && buffer.is_contiguous())
      floating_.push_back(buffer);
    else if (buffer.scalar_type() == torch::kInt64 && buffer.is_contiguous())
      counters_.push_back(buffer);
    else
      throw Error(ErrorCode::kBadInput, "buffer '" + item.key() +
                                            "' is neither float32 nor int64; such running state cannot be "
                                            "averaged over lanes");
  }
  for (const torch::Tensor& buffer : floating_) size_ += std::size_t(buffer.numel());
  for (const torch::Tensor& buffer : counters_) size_ += 2 * std::size_t(buffer.numel());
}

void BufferSet::read(std::span<float> out) const {
  float* place = out.data();
  for (const torch::Tensor& buffer : floating_) {
    std::memcpy(place, buffer.data_ptr<float>(), std::size_t(buffer.numel()) * sizeof(float));
    place += buffer.numel();
  }
  for (const torch::Tensor& buffer : counters_)
    for (std::int64_t i = 0; i < buffer.numel(); ++i) {
      const std::int64_t value = buffer.data_ptr<std::int64_t>()[i];
      *place++ = float(value % kLow);
      *place++ = float(value / kLow);
    }
}

void BufferSet::write(std::span<const float> in) {
  const float* place = in.data();
  for (torch::Tensor& buffer : floating_) {
    std::memcpy(buffer.data_ptr<float>(), place, std::size_t(buffer.numel()) * sizeof(float));
    place += buffer.numel();
  }
  for (torch::Tensor& buffer : counters_)
    for (std::int64_t i = 0; i < buffer.numel(); ++i) {
      buffer.data_ptr<std::int64_t>()[i] = std::llround(place[0]) + std::llround(place[1]) * kLow;
      place += 2;
    }
}

}  // namespace distbelief::compute
