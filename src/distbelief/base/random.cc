#include "distbelief/base/random.h"

namespace distbelief {
namespace {

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

}  // namespace

std::uint64_t derive_seed(std::initializer_list<std::uint64_t> words) {
  std::uint64_t state = kGolden;
  for (std::uint64_t word : words) state = mix(state + kGolden + mix(word + kGolden));
  return state;
}

SplitMix64::result_type SplitMix64::operator()() { return mix(state_ += kGolden); }

std::uint64_t SplitMix64::below(std::uint64_t bound) {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>((*this)()) * bound) >> 64);
}

double SplitMix64::uniform() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }

}  // namespace distbelief
