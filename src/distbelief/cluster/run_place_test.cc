#include "distbelief/cluster/run_place.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"

namespace distbelief::cluster {
namespace {

namespace fs = std::filesystem;

class RunPlaceTest : public ::testing::Test {
 protected:
  RunPlaceTest() { setenv("TMPDIR", scratch_.path().c_str(), 1); }
  ~RunPlaceTest() override { unsetenv("TMPDIR"); }

  static void make_snapshots(const RunPlace& place) {
    close(shm_open(("/" + place.snapshots).c_str(), O_RDWR | O_CREAT, 0600));
  }
  static bool has_snapshots(const RunPlace& place) { return fs::exists("/dev/shm/" + place.snapshots); }

  ScratchFolder scratch_;
};

TEST_F(RunPlaceTest, IsTheSameForEveryWayToNameTheFolder) {
  const RunPlace place = place_of(scratch_.path() / "run");
  EXPECT_EQ(place_of(scratch_.path() / "." / "x" / ".." / "run").socket, place.socket);
  EXPECT_NE(place_of(scratch_.path() / "other").socket, place.socket);
  EXPECT_LT(place.socket.string().size(), 100U);
}

TEST_F(RunPlaceTest, RefusesATemporaryFolderThatLeavesNoRoomForTheSocket) {
  EXPECT_NO_THROW(require_short_place());
  const fs::path deep = scratch_.path() / std::string(100, 'x');
  fs::create_directories(deep);
  setenv("TMPDIR", deep.c_str(), 1);
  try {
    require_short_place();
    FAIL() << deep;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("TMPDIR"), std::string::npos) << error.what();
  }
}

TEST_F(RunPlaceTest, SnapshotsArePutAsideAndBroughtBack) {
  const std::string name = place_of(scratch_.path() / "run").snapshots;
  const fs::path memory = fs::path("/dev/shm") / name, file = scratch_.path() / kKeptSnapshots;
  EXPECT_FALSE(put_aside(name, file));
  EXPECT_FALSE(bring_back(name, file));
  std::string state(10'000'000, 'x');
  for (std::size_t i = 0; i < state.size(); i += 4096) state[i] = char(i >> 12);
  std::ofstream(memory) << state;
  EXPECT_TRUE(put_aside(name, file));
  EXPECT_FALSE(fs::exists(memory));
  EXPECT_TRUE(bring_back(name, file));
  EXPECT_TRUE(fs::exists(file)) << "until there is something newer";
  EXPECT_EQ(fs::status(memory).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  std::ifstream found(memory);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(found), {}), state);
  EXPECT_THROW(put_aside(name, scratch_.path() / "nowhere" / "file"), Error);
  EXPECT_TRUE(fs::exists(memory)) << "nothing is lost when it cannot be kept";
  std::ofstream(file) << "older";
  EXPECT_FALSE(bring_back(name, file));
  EXPECT_EQ(fs::file_size(memory), state.size()) << "what is in memory is newer";
  clear_far_place(name);
}

TEST_F(RunPlaceTest, LeavesNothingWhenCleared) {
  const RunPlace place = place_of(scratch_.path() / "run");
  make_place(place);
  make_snapshots(place);
  EXPECT_TRUE(fs::exists(place.launcher));
  clear_place(place);
  EXPECT_FALSE(fs::exists(place.folder.parent_path()));
  EXPECT_FALSE(has_snapshots(place));
}

TEST_F(RunPlaceTest, ClearsWhatADeadSupervisorLeftAndNothingElse) {
  const RunPlace dead = place_of(scratch_.path() / "dead"), alive = place_of(scratch_.path() / "alive");
  const pid_t child = fork();
  if (child == 0) {
    make_place(dead);
    make_snapshots(dead);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  make_place(alive);
  clear_abandoned(dead);
  EXPECT_TRUE(fs::exists(dead.folder)) << "what a command goes on with is not abandoned";
  clear_abandoned(place_of(scratch_.path() / "own"));
  EXPECT_FALSE(fs::exists(dead.folder));
  EXPECT_FALSE(has_snapshots(dead));
  EXPECT_TRUE(fs::exists(alive.folder));
  clear_place(alive);
}

TEST_F(RunPlaceTest, LeavesAFolderAloneThatSomebodyIsJustMaking) {
  const RunPlace place = place_of(scratch_.path() / "run");
  fs::create_directories(place.launcher);  // without the owner's name
  make_snapshots(place);
  clear_abandoned(place_of(scratch_.path() / "own"));
  EXPECT_TRUE(fs::exists(place.folder));
  EXPECT_TRUE(has_snapshots(place));
  fs::last_write_time(place.folder, fs::file_time_type::clock::now() - std::chrono::minutes(2));
  clear_abandoned(place_of(scratch_.path() / "own"));
  EXPECT_FALSE(fs::exists(place.folder));
  EXPECT_FALSE(has_snapshots(place));
}

}  // namespace
}  // namespace distbelief::cluster
