#include "distbelief/elastic/state_keeper.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "distbelief/base/scratch_folder.h"

namespace distbelief::elastic {
namespace {

using checkpoint::SnapshotMemory;

class StateKeeperTest : public ::testing::Test {
 protected:
  ~StateKeeperTest() override { SnapshotMemory::remove(name_); }

  StateKeeper make() {
    return StateKeeper(world_, {.memory = name_, .folder = scratch_.path() / "checkpoints"});
  }
  std::optional<std::string> found() { return make().newest(); }

  World world_ = World::create();
  ScratchFolder scratch_;
  std::string name_ = "distbelief-test-" + std::to_string(getpid());
};

TEST_F(StateKeeperTest, HasNothingAtFirst) { EXPECT_FALSE(found()); }

TEST_F(StateKeeperTest, GivesTheNewestSnapshot) {
  StateKeeper keeper = make();
  keeper.newest();
  for (const char* state : {"first", "second", "third"}) keeper.snapshot(state, 10 + std::int64_t(state[0]));
  EXPECT_EQ(found(), "third");
}

TEST_F(StateKeeperTest, GivesWhicheverOfSnapshotAndCheckpointIsNewer) {
  StateKeeper keeper = make();
  keeper.newest();
  keeper.checkpoint("on disk", 5);
  keeper.wait();
  EXPECT_EQ(found(), "on disk");
  keeper.snapshot("in memory", 5);
  EXPECT_EQ(found(), "in memory");
  keeper.snapshot("in memory again", 6);
  keeper.checkpoint("on disk again", 7);
  keeper.wait();
  EXPECT_EQ(found(), "on disk again");
}

TEST_F(StateKeeperTest, AStateThatGrowsGetsLargerMemoryAndNothingElseStays) {
  StateKeeper keeper = make();
  keeper.newest();
  keeper.snapshot("small", 1);
  const std::string large(1 << 20, 'x');
  keeper.snapshot(large, 2);
  EXPECT_EQ(found(), large);
  keeper.snapshot(large + "y", 3);
  EXPECT_EQ(found(), large + "y");
  EXPECT_FALSE(SnapshotMemory::find(name_ + "-made"));
}

TEST_F(StateKeeperTest, GoesOnWithTheMemoryOfTheGenerationBefore) {
  {
    StateKeeper before = make();
    before.newest();
    before.snapshot("a", 1);
    before.snapshot("b", 2);
  }
  StateKeeper keeper = make();
  EXPECT_EQ(keeper.newest(), "b");
  keeper.snapshot("c", 3);  // replaces the older one
  const auto memory = SnapshotMemory::find(name_);
  ASSERT_TRUE(memory);
  memory->state(memory->newest()->slot)[0] ^= std::byte{1};
  EXPECT_EQ(found(), "b");
}

}  // namespace
}  // namespace distbelief::elastic
