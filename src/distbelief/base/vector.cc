#include "distbelief/base/vector.h"

#include <cmath>

#include "distbelief/base/prefetch.h"
#include "distbelief/base/simd.h"

namespace distbelief {
namespace {

// Far enough ahead to cover a fetch from the other core, and no farther: with 2048 sums of 25 MiB and more
// took up to a seventh longer on an AMD EPYC. For writing: both lines will be.
constexpr std::size_t kAheadBytes = 1024;

template <typename T>
[[gnu::always_inline]] inline void add_to_both_ahead(T* left, T* right, std::size_t count) {
  // A vector that is wider than the instruction set's goes through the stack: half a line is AVX2's.
  typedef T Half __attribute__((vector_size(kCacheLine / 2), aligned(alignof(T)), may_alias));
  constexpr std::size_t kLine = kCacheLine / sizeof(T);
  constexpr std::size_t kAhead = kAheadBytes / sizeof(T);
  std::size_t at = 0;
  for (; at + kLine <= count; at += kLine) {
    // Past the end it fetches what follows, which is allowed: a prefetch never faults.
    prefetch_line_for_write(left + at + kAhead);
    prefetch_line_for_write(right + at + kAhead);
    auto* a = reinterpret_cast<Half*>(left + at);
    auto* b = reinterpret_cast<Half*>(right + at);
    const Half low = a[0] + b[0], high = a[1] + b[1];
    a[0] = b[0] = low;
    a[1] = b[1] = high;
  }
  for (; at < count; ++at) left[at] = right[at] = left[at] + right[at];
}

}  // namespace

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

DISTBELIEF_MULTIVERSION void add_to_both(float* left, float* right, std::size_t count) {
  add_to_both_ahead(left, right, count);
}

DISTBELIEF_MULTIVERSION void add_to_both(double* left, double* right, std::size_t count) {
  add_to_both_ahead(left, right, count);
}

DISTBELIEF_MULTIVERSION void add_to_both(std::int64_t* left, std::int64_t* right, std::size_t count) {
  add_to_both_ahead(left, right, count);
}

DISTBELIEF_MULTIVERSION void scale(float* values, float factor, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] *= factor;
}

DISTBELIEF_MULTIVERSION void scale(double* values, double factor, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] *= factor;
}

Divisor::Divisor(float divisor)
    : head(1.0F / divisor),
      tail(static_cast<float>(1.0 / double{divisor} - double{head})) {}

DISTBELIEF_MULTIVERSION void normalize_bytes(float* __restrict out, const std::uint8_t* __restrict bytes,
                                             float mean, Divisor deviation, std::size_t count) {
  const Divisor whole(255.0F);
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(bytes[i]);
    const float scaled = std::fma(value, whole.head, value * whole.tail);
    const float moved = scaled - mean;
    out[i] = std::fma(moved, deviation.head, moved * deviation.tail);
  }
}

}  // namespace distbelief
