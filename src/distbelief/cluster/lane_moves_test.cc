#include "distbelief/cluster/lane_moves.h"

#include <gtest/gtest.h>

namespace distbelief::cluster {
namespace {

const LaneMoves kWholeNetworks{.lanes = 8};
const LaneMoves kPipeline{.lanes = 8, .groups = {.tensor = 1, .pipeline = 2}};
const LaneMoves kTensorGroup{.lanes = 8, .groups = {.tensor = 4, .pipeline = 1}};
const LaneMoves kLbfgs{.lanes = 8, .groups = {}, .whole_batch = true};
const LaneMoves kOwnProgram{};

TEST(LaneMoves, WorkersWithTheWholeNetworkTakeThreadsAndMayRest) {
  EXPECT_FALSE(refuse_threads(kWholeNetworks, 2));
  EXPECT_FALSE(refuse_rest(kWholeNetworks));
}

TEST(LaneMoves, WorkersThatHoldTheNetworkTogetherKeepOneThread) {
  for (const LaneMoves& run : {kPipeline, kTensorGroup}) {
    const auto refused = refuse_threads(run, 2);
    ASSERT_TRUE(refused);
    EXPECT_NE(refused->find("one thread"), std::string::npos) << *refused;
    EXPECT_FALSE(refuse_threads(run, 1));  // unchanged
  }
  EXPECT_NE(refuse_threads(kPipeline, 2)->find("parallel.pipeline 2"), std::string::npos);
}

TEST(LaneMoves, WorkersThatHoldTheNetworkTogetherDoNotRestAlone) {
  for (const LaneMoves& run : {kPipeline, kTensorGroup}) {
    const auto refused = refuse_rest(run);
    ASSERT_TRUE(refused);
    EXPECT_NE(refused->find("distbelief pause without --worker"), std::string::npos) << *refused;
  }
}

TEST(LaneMoves, LbfgsKeepsItsLanes) {
  EXPECT_NE(refuse_threads(kLbfgs, 2)->find("lbfgs"), std::string::npos);
  EXPECT_NE(refuse_rest(kLbfgs)->find("lbfgs"), std::string::npos);
}

TEST(LaneMoves, AProgramOfAUsersHasNoLanes) {
  EXPECT_NE(refuse_threads(kOwnProgram, 1)->find("no lanes"), std::string::npos);
  EXPECT_NE(refuse_rest(kOwnProgram)->find("no lanes"), std::string::npos);
}

}  // namespace
}  // namespace distbelief::cluster
