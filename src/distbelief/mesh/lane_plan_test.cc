#include "distbelief/mesh/lane_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "distbelief/base/error.h"

namespace distbelief::mesh {
namespace {

// The sum that a node of the plan stands for, as text: "((0+1)+2)".
using Sums = std::vector<std::string>;

Sums run_stack(const Sums& inputs, const std::vector<int>& merges) {
  Sums stack;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    stack.push_back(inputs[i]);
    for (int merge = 0; merge < merges[i]; ++merge) {
      const std::string right = stack.back();
      stack.pop_back();
      stack.back() = "(" + stack.back() + "+" + right + ")";
    }
  }
  return stack;
}

Sums carrier_sums(const Carrier& carrier) {
  Sums lanes;
  for (std::int64_t lane = carrier.first_lane; lane < carrier.end_lane; ++lane)
    lanes.push_back(std::to_string(lane));
  return run_stack(lanes, carrier.program.merges);
}

Sums host_sums(const LanePlan& plan, const Host& host) {
  Sums nodes;
  for (const HostNode& node : host.nodes) {
    Sums inputs;
    for (const NodeSource& source : node.sources)
      inputs.push_back(carrier_sums(
          plan.carriers[std::size_t(host.first_carrier + source.carrier)])[std::size_t(source.slot)]);
    const Sums whole = run_stack(inputs, node.merges);
    EXPECT_EQ(whole.size(), 1U);
    nodes.push_back(whole[0]);
  }
  return nodes;
}

std::string whole_sum(const LanePlan& plan) {
  Sums nodes;
  for (const Host& host : plan.hosts)
    for (const std::string& node : host_sums(plan, host)) nodes.push_back(node);
  const Sums whole = run_stack(nodes, plan.merges_of_hosts);
  EXPECT_EQ(whole.size(), 1U);
  return whole[0];
}

std::string whole_sum(std::int64_t lanes, const std::vector<int>& workers_per_host, int threads) {
  return whole_sum(plan_lanes(lanes, workers_per_host, threads));
}

TEST(LanePlan, DealsLanesToWorkersAsEvenlyAsCanBe) {
  EXPECT_EQ(deal_lanes(8, 2, {}), (std::vector<std::int64_t>{4, 4}));
  EXPECT_EQ(deal_lanes(8, 3, {}), (std::vector<std::int64_t>{2, 3, 3}));
  EXPECT_EQ(deal_lanes(8, 4, {0, 2}), (std::vector<std::int64_t>{0, 4, 0, 4}));
}

TEST(LanePlan, AddsUpInTheSameOrderAroundWorkersWithoutLanes) {
  const std::string wanted = whole_sum(8, {1}, 1);
  for (const std::vector<std::int64_t>& lanes :
       {std::vector<std::int64_t>{0, 8, 0, 0}, {4, 0, 0, 4}, {0, 0, 4, 4}, {6, 2, 0, 0}})
    EXPECT_EQ(whole_sum(plan_lanes(lanes, {2, 2}, 2)), wanted);
}

TEST(LanePlan, SharesSlicesAmongTheCarriersThatHaveLanes) {
  const LanePlan plan = plan_lanes({4, 0, 2, 0}, {3, 1}, 1);
  const auto share = [&](int host, int carrier) {
    const SliceShare found = slice_share(plan, host, carrier);
    return std::pair(found.member, found.members);
  };
  EXPECT_EQ(share(0, 0), std::pair(0, 2));
  EXPECT_EQ(share(0, 1), std::pair(2, 2)) << "none";
  EXPECT_EQ(share(0, 2), std::pair(1, 2));
  EXPECT_EQ(share(1, 0), std::pair(0, 1)) << "somebody must update this host's chunk";
}

TEST(LanePlan, DealsOutEveryLaneOnceInOrder) {
  for (std::int64_t lanes : {1, 4, 5, 8, 13, 64})
    for (int workers = 1; workers <= std::min<std::int64_t>(lanes, 7); ++workers) {
      const LanePlan plan = plan_lanes(lanes, {workers}, 1);
      std::int64_t next = 0;
      for (const Carrier& carrier : plan.carriers) {
        EXPECT_EQ(carrier.first_lane, next);
        EXPECT_GE(carrier.end_lane - carrier.first_lane, lanes / workers);
        EXPECT_LE(carrier.end_lane - carrier.first_lane, (lanes + workers - 1) / workers);
        next = carrier.end_lane;
      }
      EXPECT_EQ(next, lanes);
    }
}

TEST(LanePlan, AddsInOneOrderHoweverLanesAreSpread) {
  EXPECT_EQ(whole_sum(4, {1}, 1), "((0+1)+(2+3))");
  EXPECT_EQ(whole_sum(6, {1}, 1), "(((0+1)+(2+3))+(4+5))");
  for (std::int64_t lanes = 1; lanes <= 17; ++lanes) {
    const std::string alone = whole_sum(lanes, {1}, 1);
    const std::vector<std::vector<int>> spreads{{2}, {3}, {4}, {1, 1}, {1, 2}, {3, 1}, {1, 1, 1}, {2, 1, 4}};
    for (const auto& workers_per_host : spreads)
      for (int threads = 1; threads <= 3; ++threads) {
        int carriers = 0;
        for (int workers : workers_per_host) carriers += workers * threads;
        if (carriers > lanes) continue;
        EXPECT_EQ(whole_sum(lanes, workers_per_host, threads), alone) << carriers << " carriers";
      }
  }
}

TEST(LanePlan, AddsInThatOrderToHoweverUnevenTheWorkersAre) {
  const std::string alone = whole_sum(8, {1}, 1);
  for (std::int64_t first = 1; first < 8; ++first) {
    EXPECT_EQ(whole_sum(plan_lanes({first, 8 - first}, {2}, 1)), alone);
    EXPECT_EQ(whole_sum(plan_lanes({first, 8 - first}, {1, 1}, 1)), alone);
  }
  const LanePlan plan = plan_lanes({5, 3}, {2}, 2);
  ASSERT_EQ(plan.carriers.size(), 4U);
  EXPECT_EQ(plan.carriers[2].first_lane, 5);
  EXPECT_EQ(whole_sum(plan), alone);
}

TEST(LanePlan, OneHostAlwaysAddsUpToOneNode) {
  for (std::int64_t lanes = 1; lanes <= 9; ++lanes)
    for (int workers = 1; workers <= lanes; ++workers)
      EXPECT_EQ(plan_lanes(lanes, {workers}, 1).hosts[0].nodes.size(), 1U);
}

TEST(LanePlan, CountsThreadsAsCarriers) {
  const LanePlan plan = plan_lanes(8, {1, 2}, 2);
  ASSERT_EQ(plan.carriers.size(), 6U);
  EXPECT_EQ(plan.hosts[0].carriers, 2);
  EXPECT_EQ(plan.hosts[1].first_carrier, 2);
  EXPECT_EQ(plan.hosts[1].carriers, 4);
}

TEST(LanePlan, RefusesMoreCarriersThanLanesAndSaysWhatToSet) {
  try {
    plan_lanes(3, {2}, 2);
    FAIL() << "four carriers on three lanes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_NE(std::string(error.what()).find("parallel.lanes to 4"), std::string::npos) << error.what();
  }
}

// The sums that the rounds of a host produce, with a stack that is kept between rounds.
Sums sums_of_rounds(const LanePlan& plan, const Host& host) {
  Sums stack;
  for (std::size_t r = 0; r < host.rounds.size(); ++r) {
    const Round& round = host.rounds[r];
    EXPECT_EQ(std::size_t(round.before), stack.size());
    for (std::size_t i = 0; i < round.carriers.size(); ++i) {
      const Carrier& carrier = plan.carriers[std::size_t(host.first_carrier + round.carriers[i])];
      stack.push_back(std::to_string(carrier.lanes[r]));
      for (int merge = 0; merge < round.merges[i]; ++merge) {
        const std::string right = stack.back();
        stack.pop_back();
        stack.back() = "(" + stack.back() + "+" + right + ")";
      }
    }
    EXPECT_EQ(std::size_t(round.after), stack.size());
  }
  EXPECT_EQ(stack.size(), host.nodes.size());
  return stack;
}

TEST(LanePlan, RoundsAddUpInTheOrderOfRuns) {
  for (const std::vector<int>& workers : {std::vector<int>{1}, {2}, {3}, {2, 1}, {1, 2, 1}})
    for (std::int64_t lanes = 4; lanes <= 17; ++lanes) {
      const LanePlan plan = plan_lanes(lanes, workers, 1, Dealing::kRounds);
      Sums nodes;
      std::vector<std::int64_t> dealt;
      for (const Host& host : plan.hosts)
        for (const std::string& node : sums_of_rounds(plan, host)) nodes.push_back(node);
      for (const Carrier& carrier : plan.carriers)
        dealt.insert(dealt.end(), carrier.lanes.begin(), carrier.lanes.end());
      EXPECT_EQ(run_stack(nodes, plan.merges_of_hosts), Sums{whole_sum(lanes, {1}, 1)}) << lanes;
      std::sort(dealt.begin(), dealt.end());
      for (std::int64_t lane = 0; lane < lanes; ++lane) ASSERT_EQ(dealt[std::size_t(lane)], lane);
    }
}

TEST(LanePlan, InRoundsCarriersTakeTurns) {
  const LanePlan plan = plan_lanes(std::vector<std::int64_t>{3, 0, 2}, {3}, 1, Dealing::kRounds);
  EXPECT_EQ(plan.carriers[0].lanes, (std::vector<std::int64_t>{0, 2, 4}));
  EXPECT_TRUE(plan.carriers[1].lanes.empty());
  EXPECT_EQ(plan.carriers[2].lanes, (std::vector<std::int64_t>{1, 3}));
}

}  // namespace
}  // namespace distbelief::mesh
