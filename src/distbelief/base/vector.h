#pragma once

#include <cstddef>
#include <cstdint>

// Element-wise arithmetic on plain memory, vectorised. `out` may be one of the inputs.
namespace distbelief {

void add(float* out, const float* left, const float* right, std::size_t count);
void add(double* out, const double* left, const double* right, std::size_t count);
void add(std::int64_t* out, const std::int64_t* left, const std::int64_t* right, std::size_t count);

// Sets left and right to left + right in one pass that prefetches. For two large arrays of which another core
// wrote at least one.
void add_to_both(float* left, float* right, std::size_t count);
void add_to_both(double* left, double* right, std::size_t count);
void add_to_both(std::int64_t* left, std::int64_t* right, std::size_t count);

void scale(float* values, float factor, std::size_t count);
void scale(double* values, double factor, std::size_t count);

// A divisor of many numbers: 1 / divisor to twice the precision of float. value * head + value * tail, the
// sum in one fma, has the bits of the quotient except for rare divisors.
struct Divisor {
  explicit Divisor(float divisor);
  float head;
  float tail;
};

// out[i] = (bytes[i] / 255 - mean) / deviation, rounded after each operation. A caller that needs the bits of
// real divisions compares the 256 results once.
void normalize_bytes(float* out, const std::uint8_t* bytes, float mean, Divisor deviation, std::size_t count);

// The same with stores past the caches, for outputs larger than the caches: the old memory is not read first.
// Other threads see the output after publish_past_caches().
void normalize_bytes_past_caches(float* out, const std::uint8_t* bytes, float mean, Divisor deviation,
                                 std::size_t count);
void publish_past_caches();

}  // namespace distbelief
