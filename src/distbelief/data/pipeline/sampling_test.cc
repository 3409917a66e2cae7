#include "distbelief/data/pipeline/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace distbelief::data {
namespace {

std::vector<std::uint64_t> listed(const Permutation& order) {
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0; i < order.size(); ++i) values.push_back(order(i));
  return values;
}

TEST(Permutation, VisitsEverySampleOnceForAnySize) {
  for (const std::uint64_t size : {1, 2, 3, 4, 5, 6, 7, 10, 31, 32, 33, 255, 257, 1000, 1023, 4097, 60000}) {
    std::vector<std::uint64_t> values = listed(Permutation(size, 7, 3));
    std::sort(values.begin(), values.end());
    for (std::uint64_t i = 0; i < size; ++i) ASSERT_EQ(values[i], i) << "size " << size;
  }
}

TEST(Permutation, StaysInsideAndNeverRepeatsAtHugeSizes) {
  for (const std::uint64_t size :
       {std::uint64_t{1'000'000'007}, std::uint64_t{1} << 40, std::uint64_t{1} << 62}) {
    const Permutation order(size, 1, 0);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < 2000; ++i) {
      for (const std::uint64_t index : {i, size / 2 + i, size - 1 - i}) {
        const std::uint64_t value = order(index);
        ASSERT_LT(value, size);
        ASSERT_TRUE(seen.insert(value).second) << "size " << size << " index " << index;
      }
    }
  }
}

TEST(Permutation, IsFixedBySeedAndEpochAndDiffersBetweenThem) {
  const auto order = listed(Permutation(1000, 5, 2));
  EXPECT_EQ(order, listed(Permutation(1000, 5, 2)));
  EXPECT_NE(order, listed(Permutation(1000, 5, 3)));
  EXPECT_NE(order, listed(Permutation(1000, 6, 2)));
  EXPECT_NE(order, listed(Permutation(1000, 2, 5)));
}

TEST(Permutation, ReachesAllOrdersOfThree) {
  std::set<std::vector<std::uint64_t>> orders;
  for (std::uint64_t epoch = 0; epoch < 500; ++epoch) orders.insert(listed(Permutation(3, 1, epoch)));
  EXPECT_EQ(orders.size(), 6U);
}

TEST(Permutation, SendsEveryPartEverywhereAboutEquallyOften) {
  constexpr int kParts = 10;
  constexpr std::uint64_t kEpochs = 200;
  int counts[kParts][kParts] = {};
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Permutation order(1000, 11, epoch);
    for (std::uint64_t i = 0; i < order.size(); ++i) ++counts[i / 100][order(i) / 100];
  }
  for (const auto& row : counts) {
    for (const int count : row) EXPECT_NEAR(count, 2000, 250);  // about six deviations of a fair shuffle
  }
}

TEST(Permutation, LeavesNoRunsOfNeighbours) {
  const Permutation order(60000, 3, 1);
  int neighbours = 0;
  int rising = 0;
  for (std::uint64_t i = 0; i + 1 < order.size(); ++i) {
    const std::uint64_t a = order(i);
    const std::uint64_t b = order(i + 1);
    neighbours += (a > b ? a - b : b - a) < 60 ? 1 : 0;
    rising += b > a ? 1 : 0;
  }
  EXPECT_LT(neighbours, 180);  // a fair shuffle has 118 on average
  EXPECT_GT(neighbours, 60);
  EXPECT_NEAR(rising, 30000, 500);
}

TEST(Permutation, OfStreamsLetsEveryPlaceOfABatchReadOn) {
  constexpr std::uint64_t kSize = 23, kBatch = 4, kSteps = 5;
  const Permutation order = Permutation::streams(kSize, kBatch);
  for (std::uint64_t step = 1; step < kSteps; ++step)
    for (std::uint64_t place = 0; place < kBatch; ++place)
      EXPECT_EQ(order(step * kBatch + place), order((step - 1) * kBatch + place) + 1);
  std::vector<std::uint64_t> values = listed(order);
  EXPECT_EQ((std::vector(values.end() - 3, values.end())), (std::vector<std::uint64_t>{20, 21, 22}));
  for (std::uint64_t i = 0; i < kSize; ++i) EXPECT_EQ(order.index_of(order(i)), i);
  std::sort(values.begin(), values.end());
  for (std::uint64_t i = 0; i < kSize; ++i) EXPECT_EQ(values[i], i);
}

TEST(EpochPlan, GivesEverySampleToExactlyOneLane) {
  for (const std::uint64_t samples : {1, 5, 127, 128, 129, 1000}) {
    for (const std::uint64_t batch : {1, 7, 64, 128}) {
      for (std::uint64_t lanes = 1; lanes <= 8; ++lanes) {
        const EpochPlan plan{samples, batch, lanes};
        std::uint64_t expected = 0;
        for (std::uint64_t step = 0; step < plan.steps(); ++step) {
          for (std::uint64_t lane = 0; lane < lanes; ++lane) {
            const Range range = plan.lane_range(step, lane);
            ASSERT_EQ(range.begin, expected);
            expected = range.end;
          }
          ASSERT_EQ(expected, plan.step_range(step).end);
        }
        ASSERT_EQ(expected, samples);
      }
    }
  }
}

TEST(EpochPlan, LanesOfAStepDifferByAtMostOneAndLargerComeFirst) {
  const EpochPlan plan{100, 11, 4};
  const std::uint64_t sizes[] = {3, 3, 3, 2};
  for (std::uint64_t lane = 0; lane < 4; ++lane) EXPECT_EQ(plan.lane_range(2, lane).size(), sizes[lane]);
}

TEST(EpochPlan, LastBatchIsShorterAndMayLeaveALaneEmpty) {
  const EpochPlan plan{130, 64, 3};
  ASSERT_EQ(plan.steps(), 3U);
  EXPECT_EQ(plan.step_range(2).size(), 2U);
  EXPECT_EQ(plan.lane_range(2, 0).size(), 1U);
  EXPECT_EQ(plan.lane_range(2, 1).size(), 1U);
  EXPECT_EQ(plan.lane_range(2, 2).size(), 0U);
}

TEST(EpochPlan, HasNoStepsWithoutSamples) { EXPECT_EQ((EpochPlan{0, 64, 2}).steps(), 0U); }

}  // namespace
}  // namespace distbelief::data
