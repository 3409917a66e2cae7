#include "distbelief/server/client/map_plan.h"

#include <gtest/gtest.h>

#include <map>

namespace distbelief::server {
namespace {

ServerMap of(int servers, int hosts = 1) {
  std::vector<ServerMap::Server> known;
  for (int id = 1; id <= servers; ++id)
    known.push_back({.id = id, .target = std::to_string(id), .host = std::to_string(id % hosts)});
  return first_map(known);
}

// Every part is always on a server that had it before, and has another copy before one is removed.
void expect_sound(const ServerMap& before, const ServerMap& after, std::size_t staying) {
  ASSERT_TRUE(is_whole(after));
  for (std::size_t p = 0; p < after.parts.size(); ++p) {
    const ServerMap::Part &was = before.parts[p], &is = after.parts[p];
    EXPECT_TRUE(is.primary == was.primary || is.primary == was.backup);
    EXPECT_TRUE(was.backup == kNobody || staying == 1 || is.backup != kNobody);
    EXPECT_NE(is.backup, is.primary);
    EXPECT_NE(is.filling, is.primary);
  }
}

struct Outcome {
  ServerMap map;
  int rounds = 0;
};

Outcome settle(ServerMap map, const std::set<int>& leaving) {
  std::size_t staying = map.servers.size();
  for (const ServerMap::Server& server : map.servers) staying -= leaving.contains(server.id) ? 1 : 0;
  for (int round = 0; round < 20; ++round) {
    const auto step = next_step(map, leaving);
    if (!step) return {map, round};
    EXPECT_GT(step->map.epoch, map.epoch);
    expect_sound(map, step->map, staying);
    map = is_changing(step->map) ? with_settled(step->map) : step->map;
    expect_sound(step->map, map, staying);
  }
  ADD_FAILURE() << "it never ends";
  return {map, 20};
}

void expect_even(const ServerMap& map, int most_apart_backups = 1) {
  std::map<int, int> primaries, backups;
  for (const ServerMap::Server& server : map.servers) primaries[server.id] = backups[server.id] = 0;
  for (const ServerMap::Part& part : map.parts) {
    ++primaries[part.primary];
    ++backups[part.backup];
  }
  const auto spread = [](const std::map<int, int>& counts) {
    int most = 0, least = kParts;
    for (const auto& [id, count] : counts) most = std::max(most, count), least = std::min(least, count);
    return most - least;
  };
  EXPECT_LE(spread(primaries), 1);
  std::map<int, int> first;
  for (const ServerMap::Server& server : map.servers) first[server.id] = 0;
  for (std::size_t i = 0; i < map.parts.size(); ++i) {
    ++first[map.parts[i].primary];
    EXPECT_LE(spread(first), 1) << "the first " << i + 1 << " parts";
  }
  EXPECT_LE(map.servers.size() > 1 ? spread(backups) : 0, most_apart_backups);
}

TEST(MapPlan, LeavesAloneWhatIsAsItShouldBe) {
  for (int servers = 1; servers <= 5; ++servers) EXPECT_FALSE(next_step(of(servers), {})) << servers;
  EXPECT_FALSE(next_step(of(4, 2), {}));
}

TEST(MapPlan, ALostServersPartsGetTheirCopiesFirstAndAreThenSpreadAgain) {
  const ServerMap lost = with_newcomer(without_server(of(3), 2), {.id = 9, .target = "9", .host = "0"});
  const auto first = next_step(lost, {});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->reason, "two copies");
  for (std::size_t p = 0; p < lost.parts.size(); ++p) {
    EXPECT_EQ(first->map.parts[p].filling != kNobody, lost.parts[p].backup == kNobody);
    EXPECT_FALSE(first->map.parts[p].is_handed_over);
  }
  const Outcome outcome = settle(lost, {});
  expect_even(outcome.map);
}

// Slices of a job are distributed over the parts in turn: a job of three slices has parts 0, 1 and 2.
TEST(MapPlan, ASmallJobIsSpreadAgainAfterALossToo) {
  for (int servers = 2; servers <= 5; ++servers)
    for (int lost = 1; lost <= servers; ++lost) {
      const ServerMap left = without_server(of(servers), lost);
      const Outcome outcome = settle(with_newcomer(left, {.id = 9, .target = "9", .host = "0"}), {});
      expect_even(outcome.map, 2);
      EXPECT_EQ(outcome.map.parts[0].primary, left.parts[0].primary) << "the desk stays";
      int moved = 0;
      for (std::size_t i = 0; i < left.parts.size(); ++i)
        moved += left.parts[i].primary != outcome.map.parts[i].primary ? 1 : 0;
      EXPECT_LE(moved, int(kParts) / servers + 1) << "of " << servers;
    }
}

TEST(MapPlan, NewcomersGetTheirShare) {
  for (int servers = 1; servers <= 4; ++servers) {
    ServerMap map = of(servers);
    for (int more = 1; more <= 3; ++more) {
      map = settle(with_newcomer(map, {.id = 100 + more, .target = "x", .host = "0"}), {}).map;
      EXPECT_EQ(map.servers.size(), std::size_t(servers + more));
      expect_even(map, 2);
    }
  }
}

TEST(MapPlan, WhoLeavesHandsEverythingOverFirst) {
  for (int servers = 2; servers <= 5; ++servers)
    for (int leaving = 1; leaving < servers; ++leaving) {
      std::set<int> leavers;
      for (int id = servers; id > servers - leaving; --id) leavers.insert(id);
      const Outcome outcome = settle(of(servers), leavers);
      EXPECT_EQ(outcome.map.servers.size(), std::size_t(servers - leaving));
      expect_even(outcome.map, 2);
    }
}

TEST(MapPlan, TheTwoCopiesAreOnTwoHosts) {
  for (const ServerMap& map :
       {of(4, 2), of(3, 2), settle(with_newcomer(of(2, 2), {.id = 7, .target = "7", .host = "0"}), {}).map,
        settle(with_newcomer(of(2, 1), {.id = 7, .target = "7", .host = "elsewhere"}), {}).map}) {
    std::map<int, std::string> hosts;
    for (const ServerMap::Server& server : map.servers) hosts[server.id] = server.host;
    for (const ServerMap::Part& part : map.parts) EXPECT_NE(hosts[part.primary], hosts[part.backup]);
  }
}

TEST(MapPlan, NobodyIsLeftToTakeOver) { EXPECT_FALSE(next_step(of(2), {1, 2})); }

}  // namespace
}  // namespace distbelief::server
