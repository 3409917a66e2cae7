#include "distbelief/base/host_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace distbelief {
namespace {

using Order = std::vector<std::size_t>;

int whole_groups(const std::vector<int>& workers, const Order& order, int size) {
  std::vector<std::size_t> host_of_rank;
  for (const std::size_t host : order)
    host_of_rank.insert(host_of_rank.end(), std::size_t(workers[host]), host);
  int whole = 0;
  for (std::size_t first = 0; first + std::size_t(size) <= host_of_rank.size(); first += std::size_t(size))
    whole += host_of_rank[first] == host_of_rank[first + std::size_t(size) - 1] ? 1 : 0;
  return whole;
}

TEST(HostOrder, StaysAsGivenWhenNoGroupIsTorn) {
  EXPECT_EQ(host_order({1, 2, 1}, {}), (Order{0, 1, 2}));
  EXPECT_EQ(host_order({2, 4, 2}, {.tensor = 2}), (Order{0, 1, 2}));
  EXPECT_EQ(host_order({1, 1, 2}, {.tensor = 2}), (Order{0, 1, 2})) << "no order is better";
  EXPECT_EQ(host_order({}, {.tensor = 2}), Order{});
}

TEST(HostOrder, KeepsATensorGroupOnAHostThatHasRoomForIt) {
  EXPECT_EQ(host_order({1, 2, 1}, {.tensor = 2}), (Order{1, 0, 2}));
  EXPECT_EQ(host_order({1, 5, 5, 1}, {.tensor = 4}), (Order{1, 0, 3, 2}));
}

TEST(HostOrder, KeepsAReplicaOnAHostWhereTensorGroupsAreWholeAnyway) {
  EXPECT_EQ(host_order({2, 4, 2}, {.tensor = 2, .pipeline = 2}), (Order{1, 0, 2}));
}

TEST(HostOrder, IsTheSameWhenAskedAgainAndNeverWorseThanGiven) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int> workers(1 + random() % 7);
    for (int& count : workers) count = 1 + int(random() % 9);
    const RankGroups groups{.tensor = 1 << random() % 4, .pipeline = 1 + int(random() % 3)};
    const Order order = host_order(workers, groups);
    ASSERT_TRUE(std::ranges::is_permutation(order, host_order(workers, {})));
    std::vector<int> arranged;
    for (const std::size_t host : order) arranged.push_back(workers[host]);
    ASSERT_EQ(host_order(arranged, groups), host_order(arranged, {}));
    ASSERT_GE(whole_groups(workers, order, groups.tensor),
              whole_groups(workers, host_order(workers, {}), groups.tensor));
  }
}

TEST(HostOrder, FindsAnOrderThatTearsNothingWhereSizesAreMultiples) {
  EXPECT_EQ(whole_groups({1, 4, 3, 8}, host_order({1, 4, 3, 8}, {.tensor = 4}), 4), 3);
}

}  // namespace
}  // namespace distbelief
