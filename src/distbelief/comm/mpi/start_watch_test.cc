#include "distbelief/comm/mpi/start_watch.h"

#include <gtest/gtest.h>

namespace distbelief::comm {
namespace {

TEST(StartWatch, EndsAProcessThatIsStuckAndSaysWhere) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto get_stuck = [] {
    StartWatch watch(std::chrono::milliseconds(20));
    watch.set_rank(3);
    watch.enter("MPI_Comm_split");
    std::this_thread::sleep_for(std::chrono::minutes(1));
  };
  EXPECT_EXIT(get_stuck(), ::testing::ExitedWithCode(1), "worker 3: MPI_Comm_split did not end within");
}

TEST(StartWatch, LeavesOneAloneThatGotThere) {
  const auto begin = std::chrono::steady_clock::now();
  {
    StartWatch watch(std::chrono::hours(1));
    watch.enter("MPI_Init_thread");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1));
}

TEST(StartWatch, MayBeToldToWait) {
  StartWatch watch(StartWatch::kNever);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

}  // namespace
}  // namespace distbelief::comm
