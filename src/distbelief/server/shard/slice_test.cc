#include "distbelief/server/shard/slice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/server/shard/lane_sum.h"

namespace distbelief::server {
namespace {

std::unique_ptr<compute::Optimizer> rule(const std::string& name, double momentum = 0) {
  OptimizerConfig config;
  config.name = name;
  config.momentum = momentum;
  return compute::make_optimizer(config);
}

class SliceTest : public ::testing::Test {
 protected:
  Slice make(const compute::Optimizer& optimizer) {
    return Slice({.span = {0, 4},
                  .segments = {{.parameter = 0, .span = {0, 2}}, {.parameter = 1, .span = {2, 4}}},
                  .rule = &optimizer,
                  .compensation = compensation_,
                  .staleness_aware = staleness_aware_,
                  .keeps_previous = true});
  }
  double compensation_ = 0;
  bool staleness_aware_ = false;
  std::vector<float> ones_ = {1, 1, 1, 1};
  std::vector<float> out_ = std::vector<float>(4);
};

TEST_F(SliceTest, ATicketCountsOnce) {
  const auto sgd = rule("sgd");
  Slice slice = make(*sgd);
  EXPECT_TRUE(slice.fill(ones_.data()));
  EXPECT_FALSE(slice.fill(out_.data()));
  const Gradient gradient{.ticket = 5, .lr = 0.5, .values = ones_.data()};
  EXPECT_FALSE(slice.apply(gradient, nullptr).repeated);
  const Slice::Applied again = slice.apply(gradient, out_.data());
  EXPECT_TRUE(again.repeated);
  EXPECT_EQ(again.version, 1);
  EXPECT_EQ(out_, std::vector<float>(4, 0.5F));
}

TEST_F(SliceTest, TakesUpNothingBeforeItsFirstValues) {
  const auto adam = rule("adam");
  const std::size_t more_than_there_is = std::size_t{1} << 46;
  Slice slice({.span = {0, more_than_there_is},
               .rule = adam.get(),
               .vectors = compute::VectorSlice::Options{.vectors = 20, .count = more_than_there_is}});
  EXPECT_FALSE(slice.is_filled());
  EXPECT_THROW(slice.apply({.ticket = 0, .lr = 1, .values = ones_.data()}, nullptr), Error);
  EXPECT_THROW(slice.run(0, {}), Error);
}

// As when the slice has gone to another server while a request waits for its values.
TEST_F(SliceTest, WhatIsForgottenIsNotRead) {
  const auto sgd = rule("sgd");
  Slice slice = make(*sgd);
  EXPECT_EQ(slice.read(0, out_.data()), std::nullopt);
  slice.fill(ones_.data());
  slice.apply({.ticket = 0, .lr = 1, .values = ones_.data()}, nullptr);
  EXPECT_EQ(slice.read(0, nullptr), 1);
  slice.forget();
  EXPECT_EQ(slice.read(0, out_.data()), std::nullopt);
  EXPECT_FALSE(slice.read_version(0, out_.data()));
}

TEST_F(SliceTest, ACorrectionThatIsTooLargeIsNone) {
  const auto sgd = rule("sgd");
  compensation_ = 1e20;
  Slice slice = make(*sgd);
  slice.fill(ones_.data());
  EXPECT_EQ(slice.read(0, out_.data()), slice.version());
  slice.apply({.ticket = 0, .replica = 1, .lr = 1, .values = ones_.data()}, nullptr);
  slice.apply({.ticket = 1, .replica = 0, .lr = 1, .values = ones_.data()}, out_.data());
  EXPECT_EQ(out_, std::vector<float>(4, -1.0F));
}

TEST_F(SliceTest, AParameterWithoutAGradientKeepsItsValueAndItsCount) {
  const auto adam = rule("adam");
  Slice slice = make(*adam);
  slice.fill(ones_.data());
  const std::int32_t untouched[] = {0};
  slice.apply({.ticket = 0, .lr = 0.1, .untouched = untouched, .values = ones_.data()}, nullptr);
  slice.apply({.ticket = 1, .lr = 0.1, .values = ones_.data()}, out_.data());
  // Adam's first update of a parameter moves it by the learning rate.
  EXPECT_NEAR(out_[0], 0.9, 1e-6);
  EXPECT_NEAR(out_[2], 0.8, 1e-6);
}

TEST_F(SliceTest, TheValuesBeforeTheLastUpdateCanBeRead) {
  const auto sgd = rule("sgd");
  Slice slice = make(*sgd);
  slice.fill(ones_.data());
  for (int i = 0; i < 2; ++i) slice.apply({.ticket = i, .lr = 0.25, .values = ones_.data()}, nullptr);
  EXPECT_TRUE(slice.read_version(1, out_.data()));
  EXPECT_EQ(out_[0], 0.75F);
  EXPECT_TRUE(slice.read_version(2, out_.data()));
  EXPECT_EQ(out_[0], 0.5F);
  EXPECT_FALSE(slice.read_version(0, out_.data()));
}

TEST_F(SliceTest, DelayDividesTheLearningRate) {
  staleness_aware_ = true;
  const auto sgd = rule("sgd");
  Slice slice = make(*sgd);
  slice.fill(ones_.data());
  for (int i = 0; i < 4; ++i) slice.apply({.ticket = i, .base = i, .lr = 0, .values = ones_.data()}, nullptr);
  slice.apply({.ticket = 9, .base = 0, .lr = 1, .values = ones_.data()}, out_.data());
  EXPECT_EQ(out_[0], 0.75F);
}

TEST_F(SliceTest, CompensationAddsTheSlopeAlongTheWayGone) {
  compensation_ = 0.5;
  const auto sgd = rule("sgd");
  Slice slice = make(*sgd);
  slice.fill(ones_.data());
  slice.read(1, out_.data());                                                          // replica 1 has ones
  slice.apply({.ticket = 0, .replica = 0, .lr = 1, .values = ones_.data()}, nullptr);  // now zeros
  slice.apply({.ticket = 1, .replica = 1, .lr = 1, .values = ones_.data()}, out_.data());
  EXPECT_EQ(out_[0], -(1 + 0.5F * (0 - 1)));
}

TEST_F(SliceTest, TheLogSaysTheOrderInWhichThreadsWereApplied) {
  const auto folder = std::filesystem::temp_directory_path() / ("slice_log_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto path = folder / "updates.jsonl";
  const auto momentum = rule("sgd", 0.9);
  std::vector<float> values(4), start = {1, 2, 3, 4};
  {
    UpdateLog log(path);
    Slice slice({.number = 7,
                 .span = {0, 4},
                 .segments = {{.parameter = 0, .span = {0, 4}}},
                 .rule = momentum.get(),
                 .log = &log});
    slice.fill(start.data());
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 50; ++i) {
          const std::vector<float> gradient(4, float(t * 50 + i) / 100);
          slice.apply({.ticket = t * 50 + i, .replica = t, .lr = 0.01 + i, .values = gradient.data()},
                      nullptr);
        }
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(slice.read(0, values.data()), 200);
  }
  const std::vector<UpdateRecord> records = read_updates(path);
  ASSERT_EQ(records.size(), 200U);
  Slice replay({.span = {0, 4}, .segments = {{.parameter = 0, .span = {0, 4}}}, .rule = momentum.get()});
  replay.fill(start.data());
  for (std::size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].version, std::int64_t(i) + 1);
    EXPECT_EQ(records[i].slice, 7);
    const std::vector<float> gradient(4, float(records[i].ticket) / 100);
    replay.apply({.ticket = records[i].ticket, .lr = records[i].lr, .values = gradient.data()}, nullptr);
  }
  std::vector<float> again(4);
  replay.read(0, again.data());
  EXPECT_EQ(again, values);
  std::filesystem::remove_all(folder);
}

TEST(AreFinite, FindsWhatIsNoNumber) {
  std::vector<float> values(1000, 1.5F);
  EXPECT_TRUE(are_finite(values));
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    values[999] = bad;
    EXPECT_FALSE(are_finite(values));
  }
}

TEST(LaneSum, HasTheBitsOfTheTreeWhateverTheParts) {
  constexpr std::int64_t kLanes = 6;
  std::vector<std::vector<float>> lanes;
  for (int lane = 0; lane < kLanes; ++lane) {
    lanes.emplace_back(3000);
    for (std::size_t i = 0; i < lanes.back().size(); ++i)
      lanes.back()[i] = float(i + 1) / float(7 * lane + 3);
  }
  std::vector<LanePart> single;
  single.reserve(kLanes);
  for (int lane = 0; lane < kLanes; ++lane)
    single.push_back({.lanes = {lane, lane + 1}, .values = lanes[std::size_t(lane)].data(), .samples = 1});
  std::vector<float> all, low, high, joined;
  add_up(kLanes, single, 6, 3000, all);
  const float* const first = add_up(4, {single.begin(), single.begin() + 4}, 4, 3000, low);
  const float* const second = add_up(2,
                                     {{.lanes = {0, 1}, .values = lanes[4].data(), .samples = 1},
                                      {.lanes = {1, 2}, .values = lanes[5].data(), .samples = 1}},
                                     2, 3000, high);
  add_up(
      kLanes,
      {{.lanes = {4, 6}, .values = second, .samples = 2}, {.lanes = {0, 4}, .values = first, .samples = 4}},
      6, 3000, joined);
  EXPECT_EQ(all, joined);
  EXPECT_TRUE(is_node(kLanes, {4, 6}));
  EXPECT_FALSE(is_node(kLanes, {3, 5}));
  EXPECT_FALSE(is_node(kLanes, {4, 7}));
}

TEST(LaneSum, WhatIsThereStandsForAll) {
  const std::vector<float> one(4, 1), two(4, 2);
  std::vector<float> sum;
  add_up(4,
         {{.lanes = {2, 3}, .values = two.data(), .samples = 8},
          {.lanes = {0, 1}, .values = one.data(), .samples = 8}},
         32, 4, sum);
  EXPECT_EQ(sum, std::vector<float>(4, 6));
}

}  // namespace
}  // namespace distbelief::server
