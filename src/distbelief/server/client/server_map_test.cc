#include "distbelief/server/client/server_map.h"

#include <gtest/gtest.h>

#include <map>

#include "distbelief/base/error.h"

namespace distbelief::server {
namespace {

ServerMap three() {
  return first_map({{.id = 1, .target = "a"}, {.id = 2, .target = "b"}, {.id = 3, .target = "c"}});
}

std::map<int, int> primaries(const ServerMap& map) {
  std::map<int, int> counts;
  for (const ServerMap::Part& part : map.parts) ++counts[part.primary];
  return counts;
}

void expect_two_copies(const ServerMap& map) {
  for (const ServerMap::Part& part : map.parts) {
    EXPECT_TRUE(map.has(part.primary));
    EXPECT_TRUE(map.has(part.backup));
    EXPECT_NE(part.primary, part.backup);
    EXPECT_EQ(part.filling, kNobody);
  }
}

TEST(ServerMap, DealsPartsEvenlyWithABackupElsewhere) {
  const ServerMap map = three();
  expect_two_copies(map);
  EXPECT_EQ(primaries(map), (std::map<int, int>{{1, 22}, {2, 21}, {3, 21}}));
  const ServerMap alone = first_map({{.id = 7, .target = "x"}});
  EXPECT_EQ(alone.parts[5].backup, kNobody);
}

TEST(ServerMap, BackupsTakeOverFromALostServer) {
  const ServerMap before = three();
  const ServerMap after = without_server(before, 2);
  EXPECT_EQ(after.epoch, before.epoch + 1);
  EXPECT_TRUE(is_whole(after));
  for (std::size_t p = 0; p < after.parts.size(); ++p) {
    EXPECT_EQ(after.parts[p].primary,
              before.parts[p].primary == 2 ? before.parts[p].backup : before.parts[p].primary);
    EXPECT_NE(after.parts[p].backup, 2);
  }
  EXPECT_FALSE(is_whole(without_server(after, 3))) << "both copies of some parts are gone";
}

TEST(ServerMap, ANewcomerIsFilledWithWhatHasNoBackup) {
  ServerMap filling = with_newcomer(without_server(three(), 2), {.id = 9, .target = "d"});
  EXPECT_FALSE(is_changing(filling));
  for (ServerMap::Part& part : filling.parts)
    if (part.backup == kNobody) part.filling = 9;
  EXPECT_TRUE(is_changing(filling));
  const ServerMap full = with_settled(filling);
  expect_two_copies(full);
  const ServerMap dead = without_server(filling, 9);
  EXPECT_TRUE(is_whole(dead));
  EXPECT_EQ(dead.parts[0].filling, kNobody);
}

TEST(ServerMap, APartThatIsHandedOverHasOneWhoeverIsLost) {
  ServerMap map = three();
  map.parts[0].is_handed_over = true;
  const ServerMap::Part before = map.parts[0];
  EXPECT_EQ(with_settled(map).parts[0],
            (ServerMap::Part{.primary = before.backup, .backup = before.primary}));
  EXPECT_EQ(without_server(map, before.primary).parts[0], (ServerMap::Part{.primary = before.backup}));
  EXPECT_EQ(without_server(map, before.backup).parts[0], (ServerMap::Part{.primary = before.primary}));
  EXPECT_TRUE(without_server(map, 3).parts[0].is_handed_over);
}

TEST(ServerMap, GoesThroughTextUnchanged) {
  ServerMap map = with_newcomer(without_server(three(), 1),
                                {.id = 4, .target = "host:1", .near = "unix:/x y", .host = "host"});
  map.parts[3].is_handed_over = true;
  EXPECT_EQ(map_from_text(to_text(map)), map);
  EXPECT_THROW(map_from_text("{}"), Error);
  EXPECT_THROW(map_from_text(std::string(200'000, '[')), Error);
  EXPECT_THROW(map_from_text(R"({"epoch":1e300,"servers":[],"parts":[]})"), Error);
  EXPECT_THROW(map_from_text(R"({"epoch":1,"servers":[],"parts":[[1,-1,-1]]})"), Error);
}

}  // namespace
}  // namespace distbelief::server
