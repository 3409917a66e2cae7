#include "distbelief/compute/buffers.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "distbelief/base/error.h"
#include "distbelief/model/device.h"

namespace distbelief::compute {
namespace {

constexpr std::int64_t kLow = std::int64_t{1} << 20;
constexpr std::int64_t kMostCount = std::int64_t{1} << 44;  // a float holds the 24 bits above kLow

void require_averages(const std::string& name, const torch::Tensor& buffer) {
  const bool has_type = buffer.scalar_type() == torch::kInt64 || buffer.scalar_type() == torch::kFloat32;
  if (has_type && buffer.is_contiguous()) return;
  throw Error(
      ErrorCode::kBadInput,
      has_type ? fmt::format("buffer '{}' does not lie in one piece; register its .contiguous()", name)
               : fmt::format("buffer '{}' is {}, and running state that is averaged over lanes is float32 or "
                             "int64; register it as float32, or keep it as a plain member",
                             name, torch::toString(buffer.scalar_type())));
}

// The counter from the means of its words. When all lanes agree on the upper word, its mean equals it up to
// rounding.
std::int64_t joined(float low, float high) {
  constexpr double kAgreed = 1e-3;
  const auto upper = std::llround(high);
  if (std::abs(double(high) - double(upper)) < kAgreed) return std::llround(low) + upper * kLow;
  return std::llround(double(low) + double(high) * double(kLow));
}

}  // namespace

BufferSet::BufferSet(const torch::nn::Module& module) {
  for (const auto& item : module.named_buffers()) {
    const torch::Tensor& buffer = item.value();
    require_averages(item.key(), buffer);
    buffers_.push_back(buffer);
    size_ += (buffer.scalar_type() == torch::kInt64 ? 2 : 1) * std::size_t(buffer.numel());
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
      if (value >= kMostCount || value <= -kMostCount)
        throw Error(
            ErrorCode::kBadInput,
            fmt::format("a buffer of int64 holds {}; counts are averaged over lanes up to 2^44, so keep such "
                        "values as a plain member",
                        value));
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
    for (std::size_t i = 0; i < count; ++i, place += 2) counts_[i] = joined(place[0], place[1]);
    model::write_from_host(buffer, std::as_bytes(std::span(counts_)));
  }
}

}  // namespace distbelief::compute
