#include "distbelief/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <random>
#include <set>

namespace distbelief {
namespace {

static_assert(std::uniform_random_bit_generator<SplitMix64>);

TEST(SplitMix64, GivesTheReferenceSequence) {
  SplitMix64 random(1234567);
  for (std::uint64_t expected : {6457827717110365317ULL, 3203168211198807973ULL, 9817491932198370423ULL,
                                 4593380528125082431ULL, 16408922859458223821ULL}) {
    EXPECT_EQ(random(), expected);
  }
}

TEST(SplitMix64, BelowStaysInRangeAndIsEven) {
  constexpr std::uint64_t kBound = 10;
  constexpr int kDraws = 100000;
  std::array<int, kBound> counts{};
  SplitMix64 random(1);
  for (int i = 0; i < kDraws; ++i) {
    const std::uint64_t value = random.below(kBound);
    ASSERT_LT(value, kBound);
    ++counts[value];
  }
  double chi_square = 0.0;
  for (int count : counts) {
    const double expected = static_cast<double>(kDraws) / kBound;
    chi_square += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LT(chi_square, 27.9);  // 9 degrees of freedom, p = 0.001
}

TEST(SplitMix64, BelowReachesTheEndsOfLargeAndSmallBounds) {
  SplitMix64 random(2);
  EXPECT_EQ(random.below(1), 0u);
  constexpr std::uint64_t kHuge = ~std::uint64_t{0};
  std::uint64_t largest = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t value = random.below(kHuge);
    ASSERT_LT(value, kHuge);
    largest = std::max(largest, value);
  }
  EXPECT_GT(largest, kHuge / 100 * 98);
}

TEST(SplitMix64, UniformFillsTheUnitInterval) {
  constexpr int kDraws = 100000;
  SplitMix64 random(3);
  double sum = 0.0, smallest = 1.0, largest = 0.0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = random.uniform();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
    smallest = std::min(smallest, value);
    largest = std::max(largest, value);
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);
  EXPECT_LT(smallest, 0.001);
  EXPECT_GT(largest, 0.999);
}

// Checkpoints and results depend on these values: they never change.
TEST(DeriveSeed, IsStableAcrossVersions) {
  EXPECT_EQ(derive_seed({0}), 0xb382a305f4414f5eULL);
  EXPECT_EQ(derive_seed({1, 2, 3}), 0xa2c7ae98f4ad087aULL);
  EXPECT_EQ(derive_seed({3, 2, 1}), 0x0a7ee9814bdda202ULL);
  EXPECT_EQ(derive_seed({~std::uint64_t{0}}), 0xbda5668a01d7049cULL);
}

TEST(DeriveSeed, DependsOnTheNumberOfWords) {
  EXPECT_NE(derive_seed({1}), derive_seed({1, 0}));
  EXPECT_NE(derive_seed({1, 0}), derive_seed({0, 1}));
}

TEST(DeriveSeed, GridsOfSmallWordsDoNotCollide) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t epoch = 0; epoch < 100; ++epoch) {
    for (std::uint64_t sample = 0; sample < 100; ++sample) seen.insert(derive_seed({1, epoch, sample}));
  }
  EXPECT_EQ(seen.size(), 10000u);
}

TEST(DeriveSeed, OneBitOfAWordFlipsHalfTheResult) {
  int flipped = 0;
  for (int bit = 0; bit < 64; ++bit) {
    flipped += std::popcount(derive_seed({7, 0, 9}) ^ derive_seed({7, std::uint64_t{1} << bit, 9}));
  }
  EXPECT_NEAR(flipped / 64.0, 32.0, 2.0);
}

}  // namespace
}  // namespace distbelief
