#include "distbelief/compute/vector_slice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "distbelief/base/error.h"

namespace distbelief::compute {
namespace {

using Does = Operation::Kind;

std::vector<std::vector<float>> gradients(std::int64_t portions, std::size_t count) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> all{std::size_t(portions), std::vector<float>(count)};
  for (auto& one : all)
    for (float& value : one) value = normal(random);
  return all;
}

const std::vector<Operation> kCollectIt{{Does::kCollect, 1, 1, 0}};

class VectorSliceTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t kPortions = 11;
  static constexpr std::size_t kCount = 3000;
  static VectorSlice make() { return VectorSlice({.vectors = 3, .portions = kPortions, .count = kCount}); }
  bool give(VectorSlice& slice, std::int64_t evaluation, std::int64_t portion) const {
    const VectorSlice::Portion one{.evaluation = evaluation,
                                   .portion = portion,
                                   .weight = 1.0 / double(portion + 2),
                                   .loss = 0.1 * double(portion),
                                   .values = gradients_[std::size_t(portion)].data()};
    const bool is_new = slice.is_new(one);
    if (is_new) slice.add(one);
    return is_new;
  }
  std::vector<float> collected(VectorSlice& slice, std::int64_t sequence) {
    slice.run(sequence, kCollectIt, point_.data());
    return slice.arrays()[0];
  }
  std::vector<std::vector<float>> gradients_ = gradients(kPortions, kCount);
  std::vector<float> point_ = std::vector<float>(kCount);
};

TEST_F(VectorSliceTest, TheSumHasTheSameBitsInWhateverOrderPortionsCome) {
  std::vector<std::int64_t> order(kPortions);
  std::iota(order.begin(), order.end(), 0);
  VectorSlice first = make();
  for (const std::int64_t portion : order) give(first, 0, portion);
  const std::vector<float> expected = collected(first, 0);
  double plain = 0;
  for (std::int64_t i = 0; i < kPortions; ++i)
    plain += double(gradients_[std::size_t(i)][5]) * double(float(1.0 / double(i + 2)));
  EXPECT_NEAR(expected[5], plain, 1e-5);
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    VectorSlice other = make();
    for (const std::int64_t portion : order) give(other, 0, portion);
    ASSERT_EQ(collected(other, 0), expected);
    ASSERT_EQ(other.run(0, kCollectIt, point_.data()), first.run(0, kCollectIt, point_.data())) << "the loss";
  }
}

TEST_F(VectorSliceTest, APortionAndACommandCountOnce) {
  VectorSlice slice = make();
  EXPECT_TRUE(give(slice, 0, 4));
  EXPECT_FALSE(give(slice, 0, 4));
  EXPECT_THROW(give(slice, 1, 0), Error) << "an evaluation that has not begun";
  EXPECT_THROW(slice.require_possible(0, kCollectIt), Error) << "not complete";
  for (std::int64_t portion = 0; portion < kPortions; ++portion) give(slice, 0, portion);
  slice.require_possible(0, kCollectIt);
  const std::vector<double> loss = slice.run(0, kCollectIt, point_.data());
  EXPECT_FALSE(give(slice, 0, 4)) << "late";
  EXPECT_EQ(slice.evaluation(), 1);
  const std::vector<Operation> doubled{{Does::kScale, 1, 1, 2}, {Does::kDot, 1, 1, 0}};
  const std::vector<double> once = slice.run(1, doubled, point_.data());
  EXPECT_EQ(slice.run(1, doubled, point_.data()), once);
  EXPECT_EQ(slice.run(0, kCollectIt, point_.data()), loss);
  EXPECT_THROW(slice.require_possible(3, doubled), Error) << "before its turn";
}

TEST_F(VectorSliceTest, WhoeverGetsItsStateGoesOnAsItWould) {
  VectorSlice slice = make();
  for (std::int64_t portion = 0; portion < kPortions; ++portion) give(slice, 0, portion);
  slice.run(0, kCollectIt, point_.data());
  for (const std::int64_t portion : {7, 2, 3, 10}) give(slice, 1, portion);
  VectorSlice heir = make();
  heir.install(slice.words(), slice.arrays());
  EXPECT_EQ(heir.run(0, kCollectIt, point_.data()), slice.run(0, kCollectIt, point_.data()));
  for (std::int64_t portion = 0; portion < kPortions; ++portion)
    EXPECT_EQ(give(heir, 1, portion), give(slice, 1, portion));
  EXPECT_EQ(collected(heir, 1), collected(slice, 1));
  EXPECT_EQ(heir.words(), slice.words());
  std::vector<std::int64_t> cut = slice.words();
  cut.pop_back();
  cut.pop_back();
  EXPECT_THROW(heir.install(cut, slice.arrays()), Error);
  EXPECT_THROW(heir.install(slice.words(), {}), Error);
}

}  // namespace
}  // namespace distbelief::compute
