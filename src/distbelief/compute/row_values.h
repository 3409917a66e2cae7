#pragma once

#include <cstddef>
#include <cstdint>

// The arithmetic of tables. Pure.
namespace distbelief::compute {

// A 64-bit number that looks like none of the others (the last steps of SplitMix64). Bijective.
inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// Which of the 64 parts of the servers' map a row belongs to. The same for ever: who has a row goes by it.
inline int part_of_row(std::uint64_t id) { return int(mix(id) >> 58); }

// A row before its first update: uniform in [-scale, scale), from the table's seed and the id alone.
void first_values(std::uint64_t seed, std::uint64_t id, float scale, float* values, std::size_t width);

// In a fixed order. Finite only if all numbers are.
float row_square(const float* values, std::size_t count);

// Adagrad with one sum for the whole row: adds the mean square of the gradient to `accumulated` and takes the
// step lr / sqrt(accumulated).
void update_row(float* values, float& accumulated, const float* gradient, float lr, std::size_t width);

}  // namespace distbelief::compute
