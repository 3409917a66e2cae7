#include "distbelief/base/memory_limit.h"

#include <gtest/gtest.h>

#include <fstream>

#include "distbelief/base/scratch_folder.h"

namespace distbelief {
namespace {

class MemoryLimitTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = scratch_.path() / path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  ScratchFolder scratch_;
};

TEST_F(MemoryLimitTest, IsTheMachinesWithoutGroups) {
  EXPECT_EQ(memory_limit(scratch_.path()), 0u);
  write("proc/meminfo", "MemTotal:       2048 kB\nMemFree:        1 kB\n");
  EXPECT_EQ(memory_limit(scratch_.path()), 2048u * 1024);
}

TEST_F(MemoryLimitTest, IsTheTightestOfTheGroupsThatOneIsIn) {
  write("proc/meminfo", "MemTotal:       2048 kB\n");
  write("proc/self/cgroup", "0::/job/step\n");
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/fs/cgroup/job/memory.max", "5000\n");
  EXPECT_EQ(memory_limit(scratch_.path()), 5000u);
  write("sys/fs/cgroup/job/step/memory.max", "max\n");
  EXPECT_EQ(memory_limit(scratch_.path()), 5000u);
  write("sys/fs/cgroup/job/step/memory.max", "4000\n");
  EXPECT_EQ(memory_limit(scratch_.path()), 4000u);
}

TEST_F(MemoryLimitTest, IsFoundInsideAContainerThatSeesItsOwnGroupAsTheRoot) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\nnonsense\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "3000\n");
  EXPECT_EQ(memory_limit(scratch_.path()), 3000u);
}

TEST_F(MemoryLimitTest, OfThisMachineIsThere) { EXPECT_GT(memory_limit(), 1u << 20); }

}  // namespace
}  // namespace distbelief
