#include "distbelief/cluster/recovery.h"

#include <gtest/gtest.h>

namespace distbelief::cluster {
namespace {

using std::chrono::milliseconds;

Loss killed(std::int64_t step) {
  return {.rank = 1, .signal = 9, .exit_code = 137, .step = step, .reason = {}};
}
Loss threw(std::int64_t step) {
  return {.rank = 0, .signal = 0, .exit_code = 1, .step = step, .reason = "boom"};
}

TEST(Recovery, GoesOnAtOnceAfterALossWithProgress) {
  for (std::int64_t losses = 1; losses <= 300; ++losses) {
    std::vector<Loss> all;
    for (std::int64_t i = 0; i < losses; ++i) all.push_back(killed(10 + i));
    const RecoveryDecision decision = decide_recovery({.restarts = 2}, all);
    ASSERT_TRUE(decision.restart);
    ASSERT_EQ(decision.delay, milliseconds(0));
  }
}

TEST(Recovery, WaitsLongerEachTimeThatNothingIsGained) {
  std::vector<Loss> all{killed(10)};
  std::vector<std::int64_t> delays;
  for (int i = 0; i < 5; ++i) {
    delays.push_back(decide_recovery({.restarts = 9}, all).delay.count());
    all.push_back(killed(7));
  }
  EXPECT_EQ(delays, (std::vector<std::int64_t>{0, 250, 500, 1000, 2000}));
}

TEST(Recovery, GivesUpWhenTheBudgetIsSpent) {
  std::vector<Loss> all{killed(10), killed(10), killed(10)};
  EXPECT_TRUE(decide_recovery({.restarts = 3}, all).restart);
  all.push_back(killed(10));
  const RecoveryDecision decision = decide_recovery({.restarts = 3}, all);
  EXPECT_FALSE(decision.restart);
  EXPECT_NE(decision.reason.find("3 restarts"), std::string::npos);
  all.push_back(killed(11));  // a new step would reset the count
  EXPECT_TRUE(decide_recovery({.restarts = 3}, all).restart);
}

TEST(Recovery, StopsAFaultThatRepeatsAtTheSameStep) {
  EXPECT_TRUE(decide_recovery({}, {threw(5), threw(5)}).restart);
  const RecoveryDecision decision = decide_recovery({}, {threw(5), threw(5), threw(5)});
  EXPECT_FALSE(decision.restart);
  EXPECT_NE(decision.reason.find("step 5: boom"), std::string::npos);
  EXPECT_TRUE(decide_recovery({}, {threw(5), threw(5), threw(6)}).restart);
}

TEST(Recovery, DoesNotTryAgainWhatCannotStart) {
  EXPECT_FALSE(decide_recovery({}, {{.exit_code = 2, .step = -1, .reason = "bad job"}}).restart);
  EXPECT_FALSE(decide_recovery({}, {threw(-1)}).restart);
  EXPECT_TRUE(decide_recovery({}, {killed(-1)}).restart);
  EXPECT_TRUE(decide_recovery({}, {{.silent = true, .step = -1, .reason = "no progress"}}).restart);
  EXPECT_TRUE(decide_recovery({}, {killed(10), threw(-1)}).restart);
  EXPECT_FALSE(decide_recovery({.restarts = 0}, {killed(10)}).restart);
}

TEST(Recovery, OnlyWhatHasNotTrainedWasRefused) {
  const Loss bad_job{.exit_code = 2, .step = -1, .reason = "bad job"};
  EXPECT_TRUE(was_refused(bad_job, -1));
  EXPECT_TRUE(was_refused({.exit_code = 2, .step = 0, .reason = "damaged image in the first batch"}, 0));
  EXPECT_FALSE(was_refused({.exit_code = 2, .step = 7, .reason = "damaged image"}, 7));
  EXPECT_FALSE(was_refused(threw(-1), -1));
  EXPECT_FALSE(was_refused({.signal = 9, .exit_code = 2, .step = 0, .reason = {}}, 0));
  EXPECT_FALSE(was_refused(bad_job, 500)) << "a file was damaged while it was restarted, or others train";
}

TEST(Recovery, StartsOneOfManyAgainThatWasRefusedWhileItTrained) {
  std::vector<Loss> all{Loss{.rank = 0, .exit_code = 2, .step = 7, .reason = "not finite"}};
  EXPECT_TRUE(decide_recovery({.restarts = 5, .runs_elsewhere = true}, all).restart);
  EXPECT_FALSE(decide_recovery({.restarts = 5}, all).restart) << "there are no others";
  all[0].step = -1;
  EXPECT_FALSE(decide_recovery({.restarts = 5, .runs_elsewhere = true}, all).restart) << "it never trained";
  all.assign(3, Loss{.rank = 0, .exit_code = 2, .step = 7, .reason = "not finite"});
  EXPECT_FALSE(decide_recovery({.restarts = 5, .runs_elsewhere = true}, all).restart) << "but not for ever";
}

TEST(Recovery, DoesNotTryAgainWhatTheJobItselfCauses) {
  const Loss diverged{.rank = 0, .step = 40, .reason = "the loss became nan", .by_job = true};
  EXPECT_FALSE(decide_recovery({}, {diverged}).restart);
  EXPECT_FALSE(decide_recovery({}, {killed(10), diverged}).restart);
  EXPECT_TRUE(decide_recovery({.restarts = 5, .runs_elsewhere = true}, {diverged}).restart)
      << "a replica of several computes other steps next time";
}

TEST(Recovery, TriesAgainWhatCouldNotStartWhileOthersTrain) {
  std::vector<Loss> all{threw(-1)};
  EXPECT_FALSE(decide_recovery({.restarts = 5}, all).restart);
  EXPECT_TRUE(decide_recovery({.restarts = 5, .runs_elsewhere = true}, all).restart);
  all.insert(all.end(), 2, threw(-1));
  EXPECT_FALSE(decide_recovery({.restarts = 5, .runs_elsewhere = true}, all).restart) << "but not for ever";
}

TEST(Loss, SaysWhoHowAndWhen) {
  EXPECT_EQ(killed(412).describe(), "worker 1 lost (signal 9) at step 412");
  EXPECT_EQ(threw(3).describe(), "worker 0 lost (boom) at step 3");
  EXPECT_EQ((Loss{.exit_code = 1}).describe(), "the workers were lost (exit code 1) before the first step");
}

}  // namespace
}  // namespace distbelief::cluster
