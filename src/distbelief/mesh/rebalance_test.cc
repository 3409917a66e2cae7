#include "distbelief/mesh/rebalance.h"

#include <gtest/gtest.h>

#include <numeric>

namespace distbelief::mesh {
namespace {

using Lanes = std::vector<std::int64_t>;

TEST(Rebalance, LeavesEqualWorkersAlone) {
  const Rebalance result = rebalance_lanes({4, 4}, {1, 1}, 1);
  EXPECT_EQ(result.lanes, (Lanes{4, 4}));
  EXPECT_EQ(result.gain, 0);
  EXPECT_EQ(result.slowness, 1);
}

TEST(Rebalance, GivesAWorkerThatIsThreeTimesSlowerAThird) {
  const Rebalance result = rebalance_lanes({4, 4}, {1, 3}, 1);
  EXPECT_EQ(result.lanes, (Lanes{6, 2}));
  EXPECT_DOUBLE_EQ(result.gain, 0.5);
  EXPECT_EQ(result.slowest, 1);
  EXPECT_DOUBLE_EQ(result.slowness, 3);
}

TEST(Rebalance, TakesTheBestWholeSplitOfARatioThatNoneMatches) {
  EXPECT_EQ(rebalance_lanes({4, 4}, {1, 2.2}, 1).lanes, (Lanes{6, 2}));  // 6 against 4.4; 5:3 would be 6.6
  EXPECT_EQ(rebalance_lanes({4, 4}, {1, 1.6}, 1).lanes, (Lanes{5, 3}));  // 5 against 4.8
  EXPECT_EQ(rebalance_lanes({3, 3, 2}, {5, 1, 1}, 1).lanes, (Lanes{1, 4, 3}));
}

TEST(Rebalance, KeepsEveryLaneAndLeavesNobodyWithout) {
  const Rebalance result = rebalance_lanes({4, 4, 4}, {1, 100, 1}, 2);
  EXPECT_EQ(std::accumulate(result.lanes.begin(), result.lanes.end(), std::int64_t{0}), 12);
  EXPECT_EQ(result.lanes[1], 2);
}

TEST(Rebalance, GivesNoLanesToAWorkerThatRests) {
  const Rebalance result = rebalance_lanes({4, 0, 4}, {1, 0, 3}, 1);
  EXPECT_EQ(result.lanes, (Lanes{6, 0, 2}));
  EXPECT_EQ(result.slowest, 2);
  EXPECT_DOUBLE_EQ(result.slowness, 3);
  EXPECT_EQ(rebalance_lanes({0, 8}, {0, 1}, 2).lanes, (Lanes{0, 8}));
}

TEST(Rebalance, IsNeverWorseThanBefore) {
  for (double slow = 1; slow < 9; slow += 0.1)
    for (std::int64_t lanes = 2; lanes < 17; ++lanes) {
      const Lanes now{lanes / 2, lanes - lanes / 2};
      ASSERT_GE(rebalance_lanes(now, {1, slow}, 1).gain, -1e-9) << slow << ' ' << lanes;
    }
}

}  // namespace
}  // namespace distbelief::mesh
