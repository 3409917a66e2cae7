#pragma once

#include <cstdint>
#include <initializer_list>

namespace distbelief {

// A 64-bit value that depends on every given word, in order. All randomness derives from it:
// derive_seed({seed, epoch, sample}) and the like. Stable across machines and versions.
std::uint64_t derive_seed(std::initializer_list<std::uint64_t> words);

// SplitMix64: one word of state, statistically sound. Not for secrets.
class SplitMix64 {
 public:
  using result_type = std::uint64_t;
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }
  result_type operator()();

  // Uniform in [0, bound); bound > 0. Multiply-shift: bias below 2^-32 for bounds under 2^32.
  std::uint64_t below(std::uint64_t bound);
  // Uniform in [0, 1) with 53 random bits.
  double uniform();

 private:
  std::uint64_t state_;
};

}  // namespace distbelief
