#include "distbelief/compute/operations.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "distbelief/base/error.h"

namespace distbelief::compute {
namespace {

using Does = Operation::Kind;

TEST(Operations, DoWhatTheyAreCalled) {
  // More than a block, and not a multiple of eight.
  const std::size_t count = 2 * 1024 + 5;
  std::vector<float> a(count), b(count, 2.0F), sum(count, 7.0F);
  std::iota(a.begin(), a.end(), 0.0F);
  std::vector<float*> vectors{a.data(), b.data()};
  const std::vector<Operation> operations{
      {Does::kDot, 0, 1, 0},  {Does::kAxpy, 1, 0, 0.5},  {Does::kScale, 1, 1, 4}, {Does::kDot, 1, 1, 0},
      {Does::kCopy, 0, 1, 0}, {Does::kCollect, 1, 1, 0}, {Does::kDot, 1, 1, 0}};
  const std::vector<double> numbers =
      run_operations(operations, vectors, count, {.sum = sum.data(), .loss = 0.25});
  ASSERT_EQ(numbers.size(), 4U);
  EXPECT_DOUBLE_EQ(numbers[0], double(count - 1) * double(count));
  double expected = 0;
  for (std::size_t i = 0; i < count; ++i) expected += (8 + 2.0 * double(i)) * (8 + 2.0 * double(i));
  EXPECT_DOUBLE_EQ(numbers[1], expected);
  EXPECT_EQ(numbers[2], 0.25);
  EXPECT_EQ(numbers[3], 49.0 * double(count));
  EXPECT_EQ(a[3], 14.0F);
  EXPECT_EQ(b.back(), 7.0F);
}

TEST(Operations, OverSlicesDotsAddUpAndTheFirstLossCounts) {
  const std::vector<Operation> operations{
      {Does::kCollect, 0, 0, 0}, {Does::kScale, 0, 0, 1}, {Does::kDot, 0, 0, 0}};
  EXPECT_EQ(over_slices(operations, {{5, 1}, {5, 2}, {5, 4}}), (std::vector<double>{5, 7}));
  EXPECT_THROW(over_slices(operations, {{5, 1}, {5}}), Error);
}

TEST(Operations, RefusesWhatThereIsNot) {
  const auto refused = [](const Operation& operation) {
    EXPECT_THROW(require_sound(std::vector{operation}, 3), Error);
  };
  refused({Does::kCopy, 3, 0, 0});
  refused({Does::kCopy, 0, -1, 0});
  refused({Does::kScale, 0, 0, std::numeric_limits<double>::infinity()});
  refused({Does(0), 0, 0, 0});
  refused({Does(6), 0, 0, 0});
  EXPECT_THROW(require_sound({}, 3), Error);
  EXPECT_THROW(require_sound(std::vector<Operation>(kMaxOperations + 1), 3), Error);
  EXPECT_NO_THROW(require_sound(std::vector{Operation{Does::kDot, 2, 1, 0}}, 3));
}

}  // namespace
}  // namespace distbelief::compute
