#include "distbelief/data/pipeline/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace distbelief::data {
namespace {

Order::Options plan_of(EpochPlan plan, Locality locality) {
  return {.plan = plan, .locality = locality, .seed = 5};
}

std::vector<std::uint64_t> all_of(const Order& order) {
  std::vector<std::uint64_t> samples(order.size());
  order.list({0, order.size()}, samples.data());
  return samples;
}

// Records the announced ranges.
class ToldSource : public Source {
 public:
  std::uint64_t size() const override { return 0; }
  void read(std::uint64_t, void*, void*) const override {}
  void announce(Range samples) const override { told.push_back(samples); }
  bool knows(std::uint64_t sample) const {
    return std::any_of(told.begin(), told.end(),
                       [&](Range range) { return range.begin <= sample && sample < range.end; });
  }
  mutable std::vector<Range> told;
};

const std::vector<Order::Options>& many_plans() {
  static const std::vector<Order::Options> plans = {
      plan_of({1, 1, 1}, {.slice = 4, .run = 2, .window = 8}),
      plan_of({100, 10, 1}, {.slice = 7, .run = 1, .window = 30}),
      plan_of({103, 10, 3}, {.slice = 7, .run = 3, .window = 90}),
      plan_of({1000, 7, 4}, {.slice = 13, .run = 4, .window = 400}),
      plan_of({1001, 64, 8}, {.slice = 10, .run = 2, .window = 1}),
      plan_of({1000, 3, 8}, {.slice = 10, .run = 8, .window = 100'000}),
      plan_of({4096, 128, 2}, {.slice = 64, .run = 4, .window = 1024}),
  };
  return plans;
}

TEST(Order, WithoutLocalityIsThePermutation) {
  const Order order({.plan = {1000, 32, 4}, .locality = {}, .seed = 9}, 3);
  const Permutation permutation(1000, 9, 3);
  for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(order(i), permutation(i));
}

TEST(Order, HasEverySampleOnceWhateverThePlanAndTheSlices) {
  for (const Order::Options& options : many_plans()) {
    for (const std::uint64_t epoch : {0, 1, 2}) {
      std::vector<std::uint64_t> samples = all_of(Order(options, epoch));
      std::sort(samples.begin(), samples.end());
      for (std::uint64_t i = 0; i < samples.size(); ++i) ASSERT_EQ(samples[i], i) << options.plan.samples;
    }
  }
}

TEST(Order, GivesAnyPositionAtOnce) {
  for (const Order::Options& options : many_plans()) {
    const Order order(options, 4);
    const std::vector<std::uint64_t> samples = all_of(order);
    for (std::uint64_t i = 0; i < samples.size(); ++i) ASSERT_EQ(order(i), samples[i]);
  }
}

TEST(Order, DiffersBetweenEpochsAndSeeds) {
  Order::Options options = many_plans().back();
  const auto first = all_of(Order(options, 0));
  EXPECT_EQ(first, all_of(Order(options, 0)));
  EXPECT_NE(first, all_of(Order(options, 1)));
  options.seed = 6;
  EXPECT_NE(first, all_of(Order(options, 0)));
}

TEST(Order, KeepsALaneWithinItsWindow) {
  const Order::Options options = many_plans().back();  // 512 samples per lane's window, 256 per run
  const Order order(options, 1);
  for (std::uint64_t lane = 0; lane < 2; ++lane) {
    for (std::uint64_t window = 0; window < 4; ++window) {
      std::set<std::uint64_t> slices;
      for (std::uint64_t step = window * 8; step < window * 8 + 8; ++step) {
        const Range range = options.plan.lane_range(step, lane);
        for (std::uint64_t at = range.begin; at < range.end; ++at) slices.insert(order(at) / 64);
      }
      EXPECT_EQ(slices.size(), 8U) << "lane " << lane << " window " << window;
    }
  }
}

TEST(Order, MixesTheSlicesOfAWindowInEveryBatch) {
  const Order::Options options = many_plans().back();
  const Order order(options, 0);
  for (std::uint64_t step = 0; step < options.plan.steps(); ++step) {
    std::set<std::uint64_t> slices;
    for (std::uint64_t at = step * 128; at < (step + 1) * 128; ++at) slices.insert(order(at) / 64);
    EXPECT_GE(slices.size(), 12U);  // of 16 in the windows of both lanes
  }
}

TEST(Order, TellsTheSourceBeforeALaneReads) {
  for (const Order::Options& options : many_plans()) {
    for (std::uint64_t lane = 0; lane < options.plan.lanes; ++lane) {
      const ToldSource source;
      const std::uint64_t steps = options.plan.steps(), start = steps / 3;
      for (std::uint64_t done = 0; done < 2 * steps; ++done) {
        const std::uint64_t epoch = (start + done) / steps, step = (start + done) % steps;
        const Order order(options, epoch);
        const Range range = options.plan.lane_range(step, lane);
        order.announce(source, {.step = step, .lane = lane, .first = done == 0});
        for (std::uint64_t at = range.begin; at < range.end; ++at) ASSERT_TRUE(source.knows(order(at)));
      }
    }
  }
}

TEST(Order, TellsOnlyOfItsOwnLanes) {
  const Order::Options options = many_plans().back();
  const Order order(options, 0);
  std::uint64_t told = 0;
  const ToldSource source;
  for (std::uint64_t step = 0; step < options.plan.steps(); ++step)
    order.announce(source, {.step = step, .lane = 0, .first = step == 0});
  std::set<std::uint64_t> runs;
  for (const Range range : source.told) runs.insert(range.begin);
  for (const std::uint64_t begin : runs) told += begin < options.plan.samples ? 256 : 0;
  // Half the epoch per lane, and the first window of the next epoch.
  EXPECT_LE(told, 4096 / 2 + 512 + 256);
}

TEST(Permutation, IndexOfIsItsInverse) {
  for (const std::uint64_t size : {1, 2, 3, 10, 33, 1000, 4097}) {
    const Permutation order(size, 3, 8);
    for (std::uint64_t i = 0; i < size; ++i) ASSERT_EQ(order.index_of(order(i)), i);
  }
}

}  // namespace
}  // namespace distbelief::data
