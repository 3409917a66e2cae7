#include "distbelief/tasks/score.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "distbelief/base/random.h"

namespace distbelief::tasks {
namespace {

TEST(MacroF1, IsTheMeanOverTheClassesThatOccur) {
  // Per class 2 * correct / (answers + targets): 2*3/(4+5), 2*1/(2+1), and a class in neither.
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
  EXPECT_EQ(auc(histogram({-0.1, 0.2}, {0.8, 1.0})), 1);
  EXPECT_EQ(auc(histogram({0.9}, {-4.0})), 0);
  EXPECT_DOUBLE_EQ(auc(histogram({-0.1, 0.5}, {0.3, 0.5})), (1 + 0 + 1 + 0.5) / 4);
  EXPECT_EQ(auc(histogram({}, {0.3})), 0.5);
}

// Compares all pairs, by sorting.
double auc_by_sorting(std::vector<double> negative, const std::vector<double>& positive) {
  std::sort(negative.begin(), negative.end());
  double right = 0;
  for (const double score : positive) {
    const auto [below, above] = std::equal_range(negative.begin(), negative.end(), score);
    right += double(below - negative.begin()) + double(above - below) / 2;
  }
  return right / double(negative.size() * positive.size());
}

// Approximately normal: a sum of uniform numbers, with the same bits everywhere.
double bell(SplitMix64& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random.uniform();
  return sum;
}

TEST(Auc, TellsRareClassesApart) {
  SplitMix64 random(7);
  // All probabilities are below 0.001, so equal bins of probability would not separate them.
  for (const double width : {0.05, 0.5, 2.0}) {
    std::vector<double> negative, positive;
    for (int i = 0; i < 100'000; ++i) negative.push_back(-16 + width * bell(random));
    for (int i = 0; i < 19; ++i) positive.push_back(-16 + width * (1.2 + bell(random)));
    const double exact = auc_by_sorting(negative, positive);
    EXPECT_GT(exact, 0.7);
    EXPECT_NEAR(auc(histogram(negative, positive)), exact, width < 0.1 ? 0.003 : 0.0005) << width;
  }
}

TEST(ScoreBin, KeepsTheOrderOfLogitsToBothEnds) {
  std::size_t before = 0;
  for (const double logit : {-1e300, -256.0, -254.9, -100.0, -16.01, -16.0, -3.0, -1.0, -0.001, 0.0, 0.001,
                             1.0, 3.0, 16.0, 16.01, 100.0, 254.9, 256.0, 1e300}) {
    const std::size_t bin = score_bin(logit);
    EXPECT_LT(bin, kScoreBins);
    if (std::abs(logit) < 256) {
      EXPECT_GT(bin, before) << logit;
    }
    before = bin;
  }
  EXPECT_EQ(score_bin(std::nan("")), 0U);
  EXPECT_EQ(score_bin(std::numeric_limits<double>::infinity()), kScoreBins - 1);
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
}  // namespace distbelief::tasks
