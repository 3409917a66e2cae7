#include "distbelief/cluster/cohort.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <utility>

namespace distbelief::cluster {
namespace {

using std::chrono::seconds;

Cohort cohort_of(const std::vector<std::string>& launcher) {
  return {1, {{}, 2}, 1, std::make_unique<Child>(Child::Options{.command = launcher})};
}

void await_end(Cohort& cohort) {
  for (int i = 0; i < 1000 && !cohort.child().wait_ended(std::chrono::milliseconds(10)); ++i) {
  }
  ASSERT_TRUE(cohort.child().ended());
}

TEST(Child, KnowsWhetherSomebodyElseEndedIt) {
  Child killed({.command = {"sleep", "60"}});
  kill(killed.pid(), SIGKILL);
  EXPECT_TRUE(killed.wait_ended(seconds(10)));
  EXPECT_EQ(killed.foreign_signal(), SIGKILL);
  Child ended({.command = {"sleep", "60"}});
  ended.signal_one(SIGKILL);
  EXPECT_TRUE(ended.wait_ended(seconds(10)));
  EXPECT_EQ(ended.foreign_signal(), 0) << "we did";
}

TEST(Cohort, NamesTheWorkersThatAreNotReady) {
  Cohort cohort(1, {{{"a", 2}, {"b", 2}}, 4}, 1,
                std::make_unique<Child>(Child::Options{.command = {"true"}}));
  for (const auto& [rank, state] : {std::pair{0, "ready"}, std::pair{1, "starting"}, std::pair{2, "ready"}})
    cohort.hear({.rank = rank, .state = state}, Cohort::Clock::now());
  EXPECT_FALSE(cohort.is_ready());
  EXPECT_EQ(cohort.late(), "worker 1 on a (starting), worker 3 on b (not heard of)");
  await_end(cohort);
}

TEST(Cohort, KnowsWhichHostsHaveForgottenTheRun) {
  Cohort cohort(1, {{{"a", 2}, {"b", 2}}, 4}, 1,
                std::make_unique<Child>(Child::Options{.command = {"true"}}));
  for (int rank = 0; rank < 4; ++rank)
    cohort.hear({.rank = rank, .state = "ended", .forgotten = rank == 2}, Cohort::Clock::now());
  EXPECT_FALSE(cohort.has_forgotten("a")) << "it has to be asked";
  EXPECT_TRUE(cohort.has_forgotten("b"));
  await_end(cohort);
}

TEST(Cohort, MissesWorkersThatWereHeardOfSoonerThanThoseThatWereNot) {
  Cohort cohort = cohort_of({"true"});
  const Cohort::Clock::time_point begin = cohort.since();
  const Cohort::Patience patience{.silence = seconds(10), .first_word = seconds(60)};
  cohort.hear({.rank = 0, .state = "training"}, begin + seconds(1));
  EXPECT_FALSE(cohort.silent(begin + seconds(11), patience));
  EXPECT_EQ(cohort.silent(begin + seconds(12), patience)->rank, 0);
  cohort.hear({.rank = 0, .state = "ended"}, begin + seconds(12));
  EXPECT_FALSE(cohort.silent(begin + seconds(60), patience));
  const auto silence = cohort.silent(begin + seconds(61), patience);
  ASSERT_TRUE(silence);
  EXPECT_EQ(silence->rank, 1) << "it never said a word";
  EXPECT_EQ(silence->since, seconds(61));
  cohort.excuse(seconds(5), begin + seconds(61));
  EXPECT_FALSE(cohort.silent(begin + seconds(61), patience)) << "nobody could be heard for a while";
  await_end(cohort);
}

TEST(Cohort, OfThoseWithoutProgressTheOneThatIsNotHeardOfIsStuck) {
  Cohort cohort(1, {{}, 3}, 1, std::make_unique<Child>(Child::Options{.command = {"true"}}));
  const Cohort::Clock::time_point begin = cohort.since();
  const auto hear = [&](int rank, const char* phase, seconds at) {
    cohort.hear({.rank = rank, .state = "training", .phase = phase}, begin + at);
  };
  hear(0, "exchange", seconds(1));
  hear(1, "backward", seconds(1));
  hear(2, "exchange", seconds(1));
  hear(0, "exchange", seconds(4));
  hear(1, "backward", seconds(4));
  EXPECT_FALSE(cohort.stuck(begin + seconds(3), seconds(3)));
  EXPECT_EQ(cohort.stuck(begin + seconds(4), seconds(3)), 2);
  hear(2, "exchange", seconds(4));
  EXPECT_EQ(cohort.stuck(begin + seconds(4), seconds(3)), 1) << "the others wait for it";
  await_end(cohort);
}

TEST(CohortLoss, NamesTheLauncherThatWasKilled) {
  Cohort cohort = cohort_of({"sleep", "60"});
  kill(cohort.child().pid(), SIGKILL);
  await_end(cohort);
  cohort.lose(1, Cohort::Clock::now());  // the workers die with it
  EXPECT_EQ(cohort.loss().describe(), "the launcher was lost (signal 9) before the first step");
}

TEST(CohortLoss, NamesTheWorkerWhoseSignalTheLauncherTells) {
  Cohort cohort = cohort_of({"sh", "-c", "exit 137"});
  await_end(cohort);
  cohort.lose(1, Cohort::Clock::now());
  EXPECT_EQ(cohort.loss().describe(), "worker 1 lost (signal 9) before the first step");
}

TEST(CohortLoss, KnowsThatTheJobIsAtFault) {
  for (const bool by_job : {true, false}) {
    Cohort cohort = cohort_of({"sh", "-c", "exit 1"});
    cohort.hear({.rank = 1, .state = "failed", .step = 3, .message = "the loss became nan", .by_job = by_job},
                Cohort::Clock::now());
    await_end(cohort);
    cohort.lose(0, Cohort::Clock::now());
    EXPECT_EQ(cohort.loss().by_job, by_job);
    EXPECT_EQ(cohort.loss().reason, "the loss became nan");
  }
}

TEST(CohortLoss, OfWorkersThatSavedAndLeftHasNoSignal) {
  Cohort cohort = cohort_of({"sh", "-c", "exit 130"});
  await_end(cohort);
  cohort.lose(-1, Cohort::Clock::now());
  EXPECT_EQ(cohort.loss().signal, 0);
  EXPECT_NE(cohort.loss().describe().find("saved and left"), std::string::npos);
}

}  // namespace
}  // namespace distbelief::cluster
