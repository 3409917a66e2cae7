#include "distbelief/cluster/hosts.h"

#include <gtest/gtest.h>

#include "distbelief/base/error.h"

namespace distbelief::cluster {
namespace {

using std::chrono::seconds;
const HostBoard::Clock::time_point kNow = HostBoard::Clock::now();

TEST(Hosts, AreParsedWithTheirWorkers) {
  const auto hosts = parse_hosts("a:2,b,c.example:16");
  ASSERT_EQ(hosts.size(), 3U);
  EXPECT_EQ(hosts[0].host, "a");
  EXPECT_EQ(hosts[0].slots, 2);
  EXPECT_EQ(hosts[1].slots, 1);
  EXPECT_EQ(hosts[2].host, "c.example");
  EXPECT_EQ(hosts[2].slots, 16);
  EXPECT_EQ(parse_hosts(std::vector<std::string>{"a:2", "b:1,c"}), parse_hosts("a:2,b:1,c"));
  EXPECT_TRUE(parse_hosts(std::vector<std::string>{}).empty());
}

TEST(Hosts, AreRefusedWhenTheyMakeNoSense) {
  for (const char* text : {"", "a:0", "a:x", ":2", "a:2,,b:1", "a:2x", "a:-1"})
    EXPECT_THROW(parse_hosts(text), Error) << text;
}

TEST(Hosts, AreRefusedWhenTheirWorkersCannotBeCounted) {
  for (const char* text : {"a:2147483647,a:1", "a:2147483647,b:2147483647", "a:99999999999", "a:1048577"})
    EXPECT_THROW(parse_hosts(text), Error) << text;
  EXPECT_THROW(parse_host_lines("a:2147483647\na:2147483647", "file"), Error);
  EXPECT_EQ(parse_hosts("a:1048575,b:1").size(), 2U);
}

TEST(Hosts, NamedTwiceHaveTheWorkersOfBoth) {
  EXPECT_EQ(parse_hosts("a:1,b:1,a:2"), (std::vector<HostSlots>{{"a", 3}, {"b", 1}}));
  EXPECT_EQ(parse_host_lines("a:1\na:1", "file"), (std::vector<HostSlots>{{"a", 2}}));
  const HostBoard board({{"a", 1}}, {{"a", 4}, {"s", 1}});
  EXPECT_EQ(board.place(5, 1), (Placement{{{"a", 1}, {"s", 1}}, 2})) << "a host is no spare of itself";
}

TEST(HostLines, AreReadWithCommentsAndBothNotations) {
  const auto hosts = parse_host_lines("# a cluster\na:2\n\n  b slots=3  # rented\nc\n", "file");
  EXPECT_EQ(hosts, (std::vector<HostSlots>{{"a", 2}, {"b", 3}, {"c", 1}}));
  EXPECT_TRUE(parse_host_lines("", "file").empty());
}

TEST(HostLines, AreRefusedWithTheirPlace) {
  for (const char* text : {"a:2\nb:none", "a\nb slots=", "a\nb 3", "a\n--flag:1"}) {
    try {
      parse_host_lines(text, "file");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("file:2"), std::string::npos) << error.what();
    }
  }
}

TEST(Placement, PutsHostsFirstThatHaveRoomForWholeGroups) {
  const Placement given{{{"a", 1}, {"b", 2}, {"c", 1}}, 4};
  EXPECT_EQ(arranged(given, {.tensor = 2}), (Placement{{{"b", 2}, {"a", 1}, {"c", 1}}, 4}));
  EXPECT_EQ(arranged(given, {}), given);
  EXPECT_EQ(arranged(Placement{{}, 3}, {.tensor = 2}), (Placement{{}, 3}));
}

TEST(Placement, DealsRanksOutInTheHostsOrder) {
  const Placement placement{{{"a", 2}, {"b", 1}}, 3};
  EXPECT_EQ(placement.host_of(0), "a");
  EXPECT_EQ(placement.host_of(1), "a");
  EXPECT_EQ(placement.host_of(2), "b");
  EXPECT_EQ((Placement{{}, 2}.host_of(1)), "");
}

TEST(HostBoard, WithoutHostsPutsAnyNumberOnThisMachine) {
  const HostBoard board({}, {});
  EXPECT_TRUE(board.is_local());
  EXPECT_EQ(board.place(7, 1), (Placement{{}, 7}));
}

TEST(HostBoard, FillsHostsInOrderAndLeavesSparesAlone) {
  const HostBoard board({{"a", 2}, {"b", 2}}, {{"c", 2}});
  EXPECT_EQ(board.slots(), 4);
  EXPECT_EQ(board.place(4, 1), (Placement{{{"a", 2}, {"b", 2}}, 4}));
  EXPECT_EQ(board.place(3, 1), (Placement{{{"a", 2}, {"b", 1}}, 3}));
}

TEST(HostBoard, ASpareComesInForALostHostAndGoesWhenItIsBack) {
  HostBoard board({{"a", 2}, {"b", 2}}, {{"c", 2}});
  board.set_aside("a", "silent", kNow + seconds(10));
  EXPECT_EQ(board.place(4, 1), (Placement{{{"b", 2}, {"c", 2}}, 4}));
  EXPECT_EQ(board.absent(), "a (silent)");
  board.take_back("a");
  EXPECT_EQ(board.place(4, 1), (Placement{{{"a", 2}, {"b", 2}}, 4}));
}

TEST(HostBoard, WithoutSparesGoesOnWithFewerAndBelowTheLeastWithNone) {
  HostBoard board({{"a", 2}, {"b", 2}, {"c", 1}}, {});
  board.set_aside("b", "silent", kNow);
  EXPECT_EQ(board.place(5, 1), (Placement{{{"a", 2}, {"c", 1}}, 3}));
  EXPECT_EQ(board.place(5, 4), Placement{});
}

TEST(HostBoard, AsksAnAbsentHostAgainOnlyWhenItIsTime) {
  HostBoard board({{"a", 1}, {"b", 1}}, {});
  board.set_aside("b", "silent", kNow + seconds(10));
  EXPECT_TRUE(board.due(kNow).empty());
  EXPECT_EQ(board.due(kNow + seconds(10)), std::vector<std::string>{"b"});
  board.retry_later("b", kNow + seconds(20));
  EXPECT_TRUE(board.due(kNow + seconds(10)).empty());
}

TEST(HostBoard, TakesANewListAndKeepsWhatItKnowsOfOldHosts) {
  HostBoard board({{"a", 1}, {"b", 1}}, {{"s", 1}});
  board.set_aside("b", "silent", kNow);
  EXPECT_FALSE(board.replace({{"b", 1}, {"a", 1}})) << "another order is no change";
  EXPECT_TRUE(board.replace({{"b", 2}, {"c", 4}}));
  EXPECT_FALSE(board.is_good("b"));
  EXPECT_FALSE(board.is_good("a"));
  EXPECT_EQ(board.place(5, 1), (Placement{{{"c", 4}, {"s", 1}}, 5}));
}

}  // namespace
}  // namespace distbelief::cluster
