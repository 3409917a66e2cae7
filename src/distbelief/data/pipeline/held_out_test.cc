#include "distbelief/data/pipeline/held_out.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "distbelief/testing/refusal.h"

namespace distbelief::data {
namespace {

std::int64_t count(const std::vector<bool>& held) { return std::count(held.begin(), held.end(), true); }

TEST(HoldOut, KeepsTheShareAndNeverAllOrNone) {
  EXPECT_EQ(count(hold_out(1000, 0.1, 1)), 100);
  EXPECT_EQ(count(hold_out(2, 0.01, 1)), 1);
  EXPECT_EQ(count(hold_out(3, 0.99, 1)), 2);
}

TEST(HoldOut, IsFixedByTheSeed) {
  EXPECT_EQ(hold_out(500, 0.2, 7), hold_out(500, 0.2, 7));
  EXPECT_NE(hold_out(500, 0.2, 7), hold_out(500, 0.2, 8));
}

TEST(HoldOut, RefusesSharesAndSetsThatLeaveAPartEmpty) {
  for (const double share : {0.0, 1.0, -0.5, 2.0})
    EXPECT_NE(testing::refusal([&] { hold_out(10, share, 1); }).find("'held_out'"), std::string::npos)
        << share;
  EXPECT_NE(testing::refusal([] { hold_out(1, 0.5, 1); }).find("at least 2 samples"), std::string::npos);
}

}  // namespace
}  // namespace distbelief::data
