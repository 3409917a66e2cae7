#include "distbelief/compute/row_values.h"

#include <array>
#include <cmath>

#include "distbelief/base/simd.h"

namespace distbelief::compute {
namespace {

constexpr std::size_t kLanes = 16;  // independent sums
constexpr float kEps = 1e-10F;

}  // namespace

DISTBELIEF_MULTIVERSION void first_values(std::uint64_t seed, std::uint64_t id, float scale, float* values,
                                          std::size_t width) {
  const std::uint64_t root = mix(mix(seed) ^ id);
  const float unit = scale / 2147483648.0F;  // 2^31
  for (std::size_t i = 0; i < width; ++i) {
    const auto bits = std::int32_t(mix(root + i) >> 32);
    values[i] = float(bits >> 7) * 128.0F * unit;  // 25 bits: exact, so never rounded up to `scale`
  }
}

DISTBELIEF_MULTIVERSION float row_square(const float* values, std::size_t count) {
  std::array<float, kLanes> sums{};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t k = 0; k < kLanes; ++k) sums[k] = std::fma(values[i + k], values[i + k], sums[k]);
  for (std::size_t k = 0; i < count; ++i, ++k) sums[k] = std::fma(values[i], values[i], sums[k]);
  for (std::size_t half = kLanes / 2; half > 0; half /= 2)
    for (std::size_t k = 0; k < half; ++k) sums[k] += sums[k + half];
  return sums[0];
}

DISTBELIEF_MULTIVERSION void update_row(float* values, float& accumulated, const float* gradient, float lr,
                                        std::size_t width) {
  accumulated += row_square(gradient, width) / float(width);
  const float step = -lr / (std::sqrt(accumulated) + kEps);
  DISTBELIEF_INDEPENDENT
  for (std::size_t i = 0; i < width; ++i) values[i] = std::fma(step, gradient[i], values[i]);
}

}  // namespace distbelief::compute
