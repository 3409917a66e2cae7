#include "distbelief/train/score.h"

#include <gtest/gtest.h>

namespace distbelief::train {
namespace {

TEST(MacroF1, IsTheMeanOverTheClassesThatOccur) {
  // Right, given, true: 2*3/(4+5), 2*1/(2+1), and a class that neither occurs nor is given.
  EXPECT_DOUBLE_EQ(macro_f1(std::vector<double>{3, 4, 5, 1, 2, 1, 0, 0, 0}), (6.0 / 9 + 2.0 / 3) / 2);
  EXPECT_EQ(macro_f1(std::vector<double>{0, 0, 0}), 0);
}

TEST(MeanIou, CountsASharedPixelOnce) {
  EXPECT_DOUBLE_EQ(mean_iou(std::vector<double>{3, 4, 5, 0, 2, 0}), (3.0 / 6 + 0) / 2);
}

std::vector<double> histogram(const std::vector<double>& negative, const std::vector<double>& positive) {
  std::vector<double> counts(2 * kScoreBins);
  for (const double score : negative) counts[score_bin(score)] += 1;
  for (const double score : positive) counts[kScoreBins + score_bin(score)] += 1;
  return counts;
}

TEST(Auc, IsTheShareOfPairsInTheRightOrder) {
  EXPECT_EQ(auc(histogram({0.1, 0.2}, {0.8, 1.0})), 1);
  EXPECT_EQ(auc(histogram({0.9}, {0.0})), 0);
  EXPECT_DOUBLE_EQ(auc(histogram({0.1, 0.5}, {0.3, 0.5})), (1 + 0 + 1 + 0.5) / 4);
  EXPECT_EQ(auc(histogram({}, {0.3})), 0.5);
}

TEST(KMeans, FindsGroupsThatLieApart) {
  std::vector<double> points;
  std::vector<int> classes;
  for (int i = 0; i < 30; ++i) {
    points.insert(points.end(), {10.0 * (i % 3) + 0.01 * i, -5.0 * (i % 3)});
    classes.push_back(i % 3);
  }
  const Clusters found = k_means(points, {.width = 2, .groups = 3});
  const std::vector<int>& groups = found.groups;
  EXPECT_EQ(purity(groups, classes), 1);
  EXPECT_EQ(groups, k_means(points, {.width = 2, .groups = 3}).groups);
  ASSERT_EQ(found.centres.size(), 6U);
  for (std::size_t i = 0; i < groups.size(); ++i)
    EXPECT_EQ(nearest_centre({points.data() + 2 * i, 2}, found.centres), groups[i]);
}

TEST(KMeans, HasNoMoreGroupsThanPoints) {
  EXPECT_EQ(k_means(std::vector<double>{1, 2}, {.width = 1, .groups = 5}).groups.size(), 2U);
  EXPECT_EQ(k_means(std::vector<double>{1, 2}, {.width = 1, .groups = 5}).centres.size(), 2U);
  EXPECT_TRUE(k_means({}, {.width = 1, .groups = 5}).groups.empty());
}

TEST(Purity, LetsEveryGroupStandForItsMostFrequentClass) {
  EXPECT_DOUBLE_EQ(purity(std::vector<int>{0, 0, 0, 1}, std::vector<int>{2, 2, 3, 3}), 0.75);
}

}  // namespace
}  // namespace distbelief::train
