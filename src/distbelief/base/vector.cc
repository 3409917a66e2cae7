#include "distbelief/base/vector.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "distbelief/base/prefetch.h"
#include "distbelief/base/simd.h"

namespace distbelief {
namespace {

// How to prefetch lines that will be written, and how far ahead: far enough to cover a fetch from another
// core. AMD: as owner. Intel: for reading, because with ownership sums of 25 MiB and more took 5 to 8 %
// longer and smaller ones gained nothing. On a Zen 5, sums of 4 MiB and more take 5 to 15 % less time with 4
// KiB ahead than with 1; on a Zen 3, 2 KiB already cost a seventh more from 25 MiB on.
enum class Fetching { kToRead, kToOwn, kToOwnFar };

Fetching fetching_here() {
#if defined(__x86_64__)
  static const Fetching best = __builtin_cpu_is("intel") != 0           ? Fetching::kToRead
                               : __builtin_cpu_supports("avx512f") != 0 ? Fetching::kToOwnFar
                                                                        : Fetching::kToOwn;
  return best;
#else
  return Fetching::kToOwn;
#endif
}

template <Fetching fetching, typename T>
[[gnu::always_inline]] inline void add_to_both_ahead(T* left, T* right, std::size_t count) {
  constexpr auto fetch = fetching == Fetching::kToRead ? prefetch_line : prefetch_line_for_write;
  // Vectors wider than the instruction set's go through the stack; half a line is AVX2's width.
  typedef T Half __attribute__((vector_size(kCacheLine / 2), aligned(alignof(T)), may_alias));
  constexpr std::size_t kLine = kCacheLine / sizeof(T);
  constexpr std::size_t kAhead = (fetching == Fetching::kToOwnFar ? 4096 : 1024) / sizeof(T);
  std::size_t at = 0;
  for (; at + kLine <= count; at += kLine) {
    // Prefetches beyond the end are harmless: a prefetch never faults.
    fetch(left + at + kAhead);
    fetch(right + at + kAhead);
    auto* a = reinterpret_cast<Half*>(left + at);
    auto* b = reinterpret_cast<Half*>(right + at);
    const Half low = a[0] + b[0], high = a[1] + b[1];
    a[0] = b[0] = low;
    a[1] = b[1] = high;
  }
  for (; at < count; ++at) left[at] = right[at] = left[at] + right[at];
}

template <typename T>
[[gnu::always_inline]] inline void add_to_both_here(T* left, T* right, std::size_t count) {
  switch (fetching_here()) {
    case Fetching::kToRead: return add_to_both_ahead<Fetching::kToRead>(left, right, count);
    case Fetching::kToOwn: return add_to_both_ahead<Fetching::kToOwn>(left, right, count);
    case Fetching::kToOwnFar: return add_to_both_ahead<Fetching::kToOwnFar>(left, right, count);
  }
}

constexpr std::size_t kLineFloats = kCacheLine / sizeof(float);

// Whole lines; `out` is aligned to them.
void write_lines_past_caches(float* out, const float* values, std::size_t count) {
#if defined(__x86_64__)
  constexpr std::size_t kVector = sizeof(__m128) / sizeof(float);
  for (std::size_t at = 0; at < count; at += kVector) _mm_stream_ps(out + at, _mm_load_ps(values + at));
#else
  std::memcpy(out, values, count * sizeof(float));
#endif
}

}  // namespace

// `out` may equal an input, which is harmless to element-wise vector code.
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
  add_to_both_here(left, right, count);
}

DISTBELIEF_MULTIVERSION void add_to_both(double* left, double* right, std::size_t count) {
  add_to_both_here(left, right, count);
}

DISTBELIEF_MULTIVERSION void add_to_both(std::int64_t* left, std::int64_t* right, std::size_t count) {
  add_to_both_here(left, right, count);
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

// Works in pieces that stay in the first-level cache until they are written as whole lines.
void normalize_bytes_past_caches(float* out, const std::uint8_t* bytes, float mean, Divisor deviation,
                                 std::size_t count) {
  alignas(kCacheLine) std::array<float, 64 * kLineFloats> piece;
  const std::size_t unaligned = reinterpret_cast<std::uintptr_t>(out) % kCacheLine / sizeof(float);
  const std::size_t head = std::min(count, unaligned == 0 ? 0 : kLineFloats - unaligned);
  const std::size_t lines_end = head + (count - head) / kLineFloats * kLineFloats;
  normalize_bytes(out, bytes, mean, deviation, head);
  for (std::size_t at = head; at < lines_end;) {
    const std::size_t some = std::min(piece.size(), lines_end - at);
    normalize_bytes(piece.data(), bytes + at, mean, deviation, some);
    write_lines_past_caches(out + at, piece.data(), some);
    at += some;
  }
  normalize_bytes(out + lines_end, bytes + lines_end, mean, deviation, count - lines_end);
}

void publish_past_caches() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace distbelief
