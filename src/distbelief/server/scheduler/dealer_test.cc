#include "distbelief/server/scheduler/dealer.h"

#include <gtest/gtest.h>

namespace distbelief::server {
namespace {

TEST(TicketSet, KeepsRangesHoweverLongAGapStays) {
  TicketSet set;
  for (std::int64_t ticket = 1; ticket < 100'000; ++ticket) EXPECT_TRUE(set.insert(ticket));
  EXPECT_EQ(set.ranges(), (std::vector<std::int64_t>{1, 100'000}));
  EXPECT_EQ(set.size(), 99'999);
  EXPECT_FALSE(set.contains(0));
  EXPECT_FALSE(set.insert(500));
  TicketSet other;
  other.assign(0, {5, 6, 8, 10});
  EXPECT_TRUE(other.insert(6));
  EXPECT_TRUE(other.insert(7));
  EXPECT_EQ(other.ranges(), (std::vector<std::int64_t>{5, 10}));
  other.insert(0, 5);
  EXPECT_EQ(other.below(), 10);
  EXPECT_TRUE(other.ranges().empty());
}

TEST(TicketSet, HasRoomForSoManyRanges) {
  TicketSet set;
  for (std::size_t i = 1; i <= TicketSet::kMostRanges; ++i) {
    EXPECT_TRUE(set.has_room_for(std::int64_t(2 * i)));
    set.insert(std::int64_t(2 * i));
  }
  EXPECT_FALSE(set.has_room_for(1'000'000));
  EXPECT_TRUE(set.has_room_for(2)) << "it is there";
  EXPECT_TRUE(set.has_room_for(3)) << "it makes one of two";
  EXPECT_TRUE(set.insert(3));
  EXPECT_TRUE(set.has_room_for(1'000'000));
}

TEST(TicketSet, KeepsOnlyWhatIsAboveTheFirstGap) {
  TicketSet set;
  EXPECT_TRUE(set.insert(1));
  EXPECT_TRUE(set.insert(0));
  EXPECT_FALSE(set.insert(1));
  EXPECT_TRUE(set.insert(4));
  EXPECT_EQ(set.below(), 2);
  EXPECT_EQ(set.ranges(), (std::vector<std::int64_t>{4, 5}));
  EXPECT_EQ(set.size(), 3);
}

TEST(Dealer, DealsEachTicketOnce) {
  Dealer dealer({.tickets = 3});
  dealer.join(0);
  dealer.join(1);
  EXPECT_EQ(dealer.take(0), 0);
  EXPECT_EQ(dealer.take(1), 1);
  EXPECT_EQ(dealer.take(1), 2);
  EXPECT_EQ(dealer.take(0), std::nullopt);
  EXPECT_FALSE(dealer.is_drained());
  for (const std::int64_t ticket : {2, 0, 1}) EXPECT_TRUE(dealer.done(0, ticket));
  EXPECT_TRUE(dealer.is_drained());
}

TEST(Dealer, TicketsOfALostReplicaAreDealtAgain) {
  Dealer dealer({.tickets = 3});
  dealer.join(0);
  dealer.join(1);
  EXPECT_EQ(dealer.take(0), 0);
  EXPECT_EQ(dealer.take(0), 1);
  EXPECT_EQ(dealer.take(1), 2);
  EXPECT_TRUE(dealer.done(0, 0));
  dealer.leave(0);
  EXPECT_EQ(dealer.take(1), 1);
  EXPECT_EQ(dealer.take(1), std::nullopt);
}

TEST(Dealer, ATicketThatComesBackTwiceCountsOnce) {
  Dealer dealer({.tickets = 1});
  dealer.join(0);
  dealer.join(1);
  EXPECT_EQ(dealer.take(0), 0);
  dealer.leave(0);
  EXPECT_EQ(dealer.take(1), 0);
  EXPECT_TRUE(dealer.done(1, 0));
  EXPECT_FALSE(dealer.done(0, 0));
  EXPECT_EQ(dealer.clock(1), 1);
}

TEST(Dealer, ATicketThatWasNeverDealtIsNotDone) {
  Dealer dealer({.tickets = 3});
  dealer.join(0);
  EXPECT_FALSE(dealer.done(0, 2));
}

TEST(Dealer, NobodyRunsAheadByMoreThanTheBound) {
  Dealer dealer({.tickets = 100, .staleness = 2});
  dealer.join(0);
  dealer.join(1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(dealer.may_begin(0)) << i;
    dealer.done(0, *dealer.take(0));
  }
  EXPECT_FALSE(dealer.may_begin(0));
  EXPECT_TRUE(dealer.may_begin(1));
  dealer.done(1, *dealer.take(1));
  EXPECT_TRUE(dealer.may_begin(0));
}

TEST(Dealer, AReplicaThatIsGoneHoldsNobodyUp) {
  Dealer dealer({.tickets = 100, .staleness = 0});
  dealer.join(0);
  dealer.join(1);
  dealer.done(0, *dealer.take(0));
  EXPECT_FALSE(dealer.may_begin(0));
  dealer.leave(1);
  EXPECT_TRUE(dealer.may_begin(0));
}

TEST(Dealer, AReplicaThatComesLateStartsWhereTheSlowestIs) {
  Dealer dealer({.tickets = 100, .staleness = 1});
  dealer.join(0);
  for (int i = 0; i < 10; ++i) dealer.done(0, *dealer.take(0));
  dealer.join(1);
  EXPECT_EQ(dealer.clock(1), 10);
  EXPECT_TRUE(dealer.may_begin(0));
}

TEST(Dealer, WhoTakesOverDealsWhatIsNotDone) {
  Dealer first({.tickets = 10}), second({.tickets = 10, .staleness = 1});
  first.join(0);
  for (int i = 0; i < 4; ++i) first.take(0);
  first.done(0, 0);
  first.done(0, 2);
  second.learn(first.next(), 1, {2, 3});
  second.take_over();
  second.join(0, 2);
  second.join(1);
  EXPECT_EQ(second.clock(0), 2);
  EXPECT_EQ(second.clock(1), 2);
  EXPECT_EQ(second.take(1), 1);
  EXPECT_EQ(second.take(1), 3);
  EXPECT_EQ(second.take(0), 4);
  EXPECT_TRUE(second.done(0, 3)) << "whoever is first";
}

TEST(Dealer, WhoTakesOverKnowsHowFarReplicasAre) {
  Dealer dealer({.tickets = 10, .staleness = 1});
  dealer.learn_clock(0, 5);
  dealer.learn_clock(1, 3);
  dealer.learn_clock(2, 0);
  dealer.learn_clock(2, {});
  dealer.take_over();
  EXPECT_EQ(dealer.slowest(), 3) << "it has not asked yet, and is waited for";
  dealer.join(0, 5);
  EXPECT_FALSE(dealer.may_begin(0));
  dealer.leave(1);
  EXPECT_TRUE(dealer.may_begin(0));
}

TEST(Dealer, AReplicaWithoutWorkHoldsNobodyUp) {
  Dealer dealer({.tickets = 3, .staleness = 0});
  dealer.join(0);
  dealer.join(1);
  const auto first = dealer.take(0), second = dealer.take(0), third = dealer.take(1);
  dealer.done(1, *third);
  EXPECT_EQ(dealer.take(1), std::nullopt);
  dealer.done(0, *first);
  EXPECT_TRUE(dealer.may_begin(0));
  dealer.done(0, *second);
  EXPECT_TRUE(dealer.is_drained());
}

TEST(Dealer, ACopyGoesToWhoHasNothingAndTheFirstCounts) {
  Dealer dealer({.tickets = 2, .is_open_ended = true});
  dealer.join(0);
  dealer.join(1);
  dealer.join(2);
  EXPECT_EQ(dealer.take(0), 0);
  EXPECT_EQ(dealer.take(0), 1);
  const auto none = [](std::int64_t) { return false; };
  EXPECT_EQ(dealer.take_copy(0, 2, none), std::nullopt) << "it has them itself";
  EXPECT_EQ(dealer.take_copy(1, 0, none), std::nullopt) << "none below 0";
  EXPECT_EQ(dealer.take_copy(1, 2, none), 1) << "the one that it has not begun";
  EXPECT_EQ(dealer.take_copy(1, 2, none), std::nullopt) << "it has one";
  EXPECT_EQ(dealer.take_copy(2, 2, none), 0) << "the other has a copy already";
  EXPECT_TRUE(dealer.done(1, 1));
  EXPECT_FALSE(dealer.done(0, 1));
  dealer.leave(0);
  EXPECT_EQ(dealer.take(1), std::nullopt) << "who has the copy has the ticket";
  dealer.leave(2);
  EXPECT_EQ(dealer.take(1), 0);
}

TEST(Dealer, GivesCopiesOfWhatSeemsDoneLast) {
  Dealer dealer({.tickets = 2});
  for (const int replica : {0, 1, 2, 3}) dealer.join(replica);
  EXPECT_EQ(dealer.take(0), 0);
  EXPECT_EQ(dealer.take(0), 1);
  const auto second = [](std::int64_t ticket) { return ticket == 1; };
  EXPECT_EQ(dealer.take_copy(1, 2, second), 0);
  EXPECT_EQ(dealer.take_copy(2, 2, second), 1) << "who has it may be stuck before it says so";
  EXPECT_EQ(dealer.take_copy(3, 2, second), std::nullopt);
}

TEST(Dealer, AnOpenEndWaitsForMoreUntilItIsClosed) {
  Dealer dealer({.tickets = 1, .is_open_ended = true});
  dealer.join(0);
  EXPECT_EQ(dealer.take(0), 0);
  dealer.done(0, 0);
  EXPECT_FALSE(dealer.is_drained());
  EXPECT_EQ(dealer.take(0), std::nullopt);
  dealer.extend(2);
  EXPECT_EQ(dealer.take(0), 1);
  dealer.close();
  EXPECT_FALSE(dealer.is_drained());
  dealer.done(0, 1);
  EXPECT_TRUE(dealer.is_drained());
}

}  // namespace
}  // namespace distbelief::server
