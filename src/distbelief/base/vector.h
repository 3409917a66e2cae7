#pragma once

#include <cstddef>
#include <cstdint>

// Element-wise arithmetic on plain memory, vectorised. `out` may be one of the inputs.
namespace distbelief {

void add(float* out, const float* left, const float* right, std::size_t count);
void add(double* out, const double* left, const double* right, std::size_t count);
void add(std::int64_t* out, const std::int64_t* left, const std::int64_t* right, std::size_t count);

void scale(float* values, float factor, std::size_t count);
void scale(double* values, double factor, std::size_t count);

// out[i] = (bytes[i] / 255 - mean) / deviation, rounded after each operation.
void normalize_bytes(float* out, const std::uint8_t* bytes, float mean, float deviation, std::size_t count);

}  // namespace distbelief
