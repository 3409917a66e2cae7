#include "distbelief/server/service/budget.h"

#include <gtest/gtest.h>

namespace distbelief::server {
namespace {

TEST(Budget, AJobHasRoomWhereItAndTheWholeHave) {
  const auto whole = std::make_shared<Budget>(100);
  Budget one(60, whole);
  auto other = std::make_unique<Budget>(60, whole);
  EXPECT_TRUE(one.take(50));
  EXPECT_FALSE(one.take(11)) << "beyond its own";
  EXPECT_TRUE(other->take(50));
  EXPECT_FALSE(other->take(1)) << "beyond the whole";
  EXPECT_EQ(other->taken(), 50U);
  one.give_back(20);
  EXPECT_TRUE(other->take(10));
  other.reset();
  EXPECT_EQ(whole->taken(), 30U);
}

TEST(Budget, WhatIsThereCountsWhetherThereIsRoomOrNot) {
  const auto whole = std::make_shared<Budget>(100);
  Budget one(60, whole);
  one.add(80);
  EXPECT_FALSE(one.take(1));
  EXPECT_TRUE(one.take(0)) << "nothing more";
  one.give_back(30);
  EXPECT_TRUE(one.take(10));
  one.close();
  EXPECT_EQ(whole->taken(), 0U);
  one.add(5);
  EXPECT_EQ(whole->taken(), 0U);
  EXPECT_FALSE(one.take(1));
}

TEST(Budget, SumsStopAtTheLargestNumber) {
  constexpr std::size_t kMost = std::size_t(-1);
  EXPECT_EQ(saturating_add(kMost - 1, 2), kMost);
  EXPECT_EQ(saturating_product(std::size_t{1} << 40, std::size_t{1} << 40), kMost);
  Budget one(kMost);
  one.add(kMost - 1);
  EXPECT_FALSE(one.take(2));
  one.add(kMost);
  EXPECT_EQ(one.taken(), kMost);
}

TEST(Budget, AReservationEnds) {
  Budget one(10);
  {
    const Reservation first(&one, 6), second(&one, 6);
    EXPECT_TRUE(first.is_there());
    EXPECT_FALSE(second.is_there());
  }
  EXPECT_EQ(one.taken(), 0U);
  EXPECT_TRUE(Reservation(nullptr, 100).is_there());
}

// Otherwise a second reservation would be refused while the first is being used.
TEST(Budget, WhatIsUsedOfAReservationDoesNotCountTwice) {
  const auto whole = std::make_shared<Budget>(12);
  Budget one(10, whole);
  {
    Reservation room(&one, 6);
    room.use(4, 0, 3);
    EXPECT_EQ(one.taken(), 5U) << "2 of the reservation, 3 that are there";
    EXPECT_EQ(whole->taken(), 5U);
    EXPECT_TRUE(Reservation(&one, 5).is_there());
    EXPECT_FALSE(Reservation(&one, 6).is_there());
    room.use(4, 3, 7);
    EXPECT_EQ(one.taken(), 7U) << "no more of a reservation than there is";
  }
  EXPECT_EQ(one.taken(), 7U);
  EXPECT_EQ(whole->taken(), 7U);
}

}  // namespace
}  // namespace distbelief::server
