#include "distbelief/cluster/autoscale.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace distbelief::cluster {
namespace {

using Counts = std::vector<int>;

TEST(WorkerCounts, AreThoseThatMakeTheLongestThreadShorter) {
  EXPECT_EQ(worker_counts(8, 1, 1, 8), (Counts{1, 2, 3, 4, 8}));
  EXPECT_EQ(worker_counts(8, 2, 1, 8), (Counts{1, 2, 4}));
  EXPECT_EQ(worker_counts(8, 1, 2, 4), (Counts{2, 3, 4}));
  EXPECT_EQ(worker_counts(4, 1, 3, 3), (Counts{3}));
}

// The final number of workers when n workers have speed(n), measured again at every stop.
int settle(const Counts& counts, int now, const std::function<double(int)>& speed) {
  Speeds speeds;
  for (int changes = 0; changes < 20; ++changes) {
    speeds[now] = speed(now);
    const AutoscaleDecision decision = decide_workers(counts, now, speeds);
    EXPECT_FALSE(decision.reason.empty());
    EXPECT_NE(std::find(counts.begin(), counts.end(), decision.workers), counts.end());
    if (decision.settled) return decision.workers;
    EXPECT_NE(decision.workers, now) << "neither settled nor changed";
    now = decision.workers;
  }
  ADD_FAILURE() << "does not settle";
  return -1;
}

TEST(Autoscale, GrowsWhileWorkersPay) {
  for (int start : {1, 2, 8}) EXPECT_EQ(settle({1, 2, 4, 8}, start, [](int n) { return 10.0 * n; }), 8);
}

TEST(Autoscale, StopsWhereTheCoresEnd) {
  for (int start : {1, 2, 4, 8})
    EXPECT_EQ(settle({1, 2, 4, 8}, start, [](int n) { return 10.0 * std::min(n, 2); }), 2) << start;
}

TEST(Autoscale, ShrinksWhereFewerAreAsFast) {
  EXPECT_EQ(settle({1, 2, 4}, 4, [](int) { return 10.0; }), 1);
}

TEST(Autoscale, HasNothingToDecideWithOneChoice) { EXPECT_TRUE(decide_workers({3}, 3, {{3, 5.0}}).settled); }

TEST(Autoscale, LeavesWhatIsNeitherWorthItNorAWasteAsItIs) {
  const Speeds speeds{{1, 10.0}, {2, 14.0}};  // the second worker brings 40 % of the first
  EXPECT_TRUE(decide_workers({1, 2}, 1, speeds).settled);
  EXPECT_TRUE(decide_workers({1, 2}, 2, speeds).settled);
}

TEST(Autoscale, SettlesHoweverNoisyTheMeasurements) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(0.7, 1.3);
  for (int run = 0; run < 1000; ++run) {
    std::map<int, double> shown;
    settle({1, 2, 3, 4, 8}, 1 + run % 3,
           [&](int n) { return shown.try_emplace(n, 10 * std::min(n, 3) * noise(random)).first->second; });
  }
}

TEST(SpeedGauge, MeasuresAfterAWhileThatDoesNotCount) {
  SpeedGauge gauge(std::chrono::seconds(10));
  const SpeedGauge::Clock::time_point start{};
  const auto at = [&](int second, std::int64_t step) {
    return gauge.note(step, start + std::chrono::seconds(second));
  };
  EXPECT_FALSE(at(0, -1));
  EXPECT_FALSE(at(1, 0));
  EXPECT_FALSE(at(4, 12)) << "the slow beginning";
  EXPECT_FALSE(at(13, 1000));
  const auto speed = at(14, 1012);
  ASSERT_TRUE(speed);
  EXPECT_DOUBLE_EQ(*speed, 100);
  EXPECT_FALSE(at(15, 2000)) << "it begins anew";
}

TEST(SpeedGauge, WaitsForStepsEnoughAndForgetsOnRestart) {
  SpeedGauge gauge(std::chrono::seconds(1));
  const SpeedGauge::Clock::time_point start{};
  const auto at = [&](int second, std::int64_t step) {
    return gauge.note(step, start + std::chrono::seconds(second));
  };
  at(0, 0);
  EXPECT_FALSE(at(5, 9));
  EXPECT_FALSE(at(6, 10));
  EXPECT_FALSE(at(9, 19));
  gauge.restart();
  EXPECT_FALSE(at(20, 100));
  EXPECT_FALSE(at(30, 200));
  EXPECT_TRUE(at(40, 300));
}

}  // namespace
}  // namespace distbelief::cluster
