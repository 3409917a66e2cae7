#include "distbelief/base/vector.h"

#include "distbelief/base/simd.h"

namespace distbelief {

// `out` may alias an input at the same index, which is harmless to element-wise vector code.
DISTBELIEF_MULTIVERSION void add(float* out, const float* left, const float* right, std::size_t count) {
  DISTBELIEF_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) out[i] = left[i] + right[i];
}

DISTBELIEF_MULTIVERSION void add(double* out, const double* left, const double* right, std::size_t count) {
  DISTBELIEF_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) out[i] = left[i] + right[i];
}

DISTBELIEF_MULTIVERSION void add(std::int64_t* out, const std::int64_t* left, const std::int64_t* right,
                                 std::size_t count) {
  DISTBELIEF_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) out[i] = left[i] + right[i];
}

DISTBELIEF_MULTIVERSION void scale(float* values, float factor, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] *= factor;
}

DISTBELIEF_MULTIVERSION void scale(double* values, double factor, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] *= factor;
}

DISTBELIEF_MULTIVERSION void normalize_bytes(float* __restrict out, const std::uint8_t* __restrict bytes,
                                             float mean, float deviation, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = (static_cast<float>(bytes[i]) / 255.0F - mean) / deviation;
}

}  // namespace distbelief
