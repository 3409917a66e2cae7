#include "distbelief/compute/buffers.h"

#include <cmath>
#include <cstring>

#include "distbelief/base/error.h"
#include "distbelief/model/device.h"

namespace distbelief::compute {
namespace {

constexpr std::int64_t kLow = std::int64_t{1} << 20;

}  // namespace

BufferSet::BufferSet(const torch::nn::Module& module) {
  for (const auto& item : module.named_buffers()) {
    const torch::Tensor& buffer = item.value();
    const bool counts = buffer.scalar_type() == torch::kInt64;
    if ((!counts && buffer.scalar_type() != torch::kFloat32) || !buffer.is_contiguous())
      throw Error(ErrorCode::kBadInput, "buffer '" + item.key() +
                                            "' is neither float32 nor int64; such running state cannot be "
                                            "averaged over lanes");
    buffers_.push_back(buffer);
    size_ += (counts ? 2 : 1) * std::size_t(buffer.numel());
  }
}

void BufferSet::read(std::span<float> out) const {
  float* place = out.data();
  for (const torch::Tensor& buffer : buffers_) {
    const auto count = std::size_t(buffer.numel());
    if (buffer.scalar_type() == torch::kFloat32) {
      std::memcpy(place, model::HostValues<float>(buffer).data(), count * sizeof(float));
      place += count;
      continue;
    }
    for (const std::int64_t value : model::HostValues<std::int64_t>(buffer)) {
      *place++ = float(value % kLow);
      *place++ = float(value / kLow);
    }
  }
}

void BufferSet::write(std::span<const float> in) {
  const float* place = in.data();
  for (const torch::Tensor& buffer : buffers_) {
    const auto count = std::size_t(buffer.numel());
    if (buffer.scalar_type() == torch::kFloat32) {
      model::write_from_host(buffer, std::as_bytes(std::span(place, count)));
      place += count;
      continue;
    }
    counts_.resize(count);
    for (std::size_t i = 0; i < count; ++i, place += 2)
      counts_[i] = std::llround(place[0]) + std::llround(place[1]) * kLow;
    model::write_from_host(buffer, std::as_bytes(std::span(counts_)));
  }
}

}  // namespace distbelief::compute
