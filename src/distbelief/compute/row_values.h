#pragma once

#include <cstddef>
#include <cstdint>

// The arithmetic of tables. Pure.
namespace distbelief::compute {

// Mixes the bits of a 64-bit number (the last steps of SplitMix64). Bijective.
inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// The part, of the 64 in the server map, that holds a row. Must never change: rows are stored by it.
inline int part_of_row(std::uint64_t id) { return int(mix(id) >> 58); }

// Initial values of a row: uniform in [-scale, scale), from the table's seed and the id alone.
void first_values(std::uint64_t seed, std::uint64_t id, float scale, float* values, std::size_t width);

// Sum of squares in a fixed order. Finite only if all values are.
float row_square(const float* values, std::size_t count);

// Adagrad with one accumulator per row: adds the mean square of the gradient to `accumulated` and takes the
// step lr / sqrt(accumulated).
void update_row(float* values, float& accumulated, const float* gradient, float lr, std::size_t width);

}  // namespace distbelief::compute
