#include "distbelief/tasks/election.h"

#include <gtest/gtest.h>

#include <vector>

namespace distbelief::tasks {
namespace {

std::int64_t elected(const std::vector<std::int64_t>& votes, const std::vector<double>& chances) {
  return elect(votes, chances);
}

TEST(Election, TheActionThatMostWantIsTaken) {
  EXPECT_EQ(elected({2, 0, 2}, {2.0, 0.5, 0.5}), 2) << "whatever the chances are";
  EXPECT_EQ(elected({1}, {0.9, 0.1}), 1) << "a voter alone decides";
}

TEST(Election, OfSeveralThatEquallyManyWantTheLikeliestIsTaken) {
  EXPECT_EQ(elected({0, 1}, {0.8, 1.2}), 1);
  EXPECT_EQ(elected({0, 1, 2, 2, 1}, {3.0, 1.2, 0.8}), 1) << "an action that fewer want is none of them";
}

TEST(Election, TheFirstIsTakenWhereNothingElseDecides) { EXPECT_EQ(elected({2, 1}, {0.0, 1.0, 1.0}), 1); }

}  // namespace
}  // namespace distbelief::tasks
