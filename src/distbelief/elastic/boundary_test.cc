#include "distbelief/elastic/boundary.h"

#include <gtest/gtest.h>

namespace distbelief::elastic {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

TEST(Boundary, StopSavesACheckpointAndHandOverASnapshot) {
  EXPECT_EQ(decide({.stop = true, .hand_over = true, .pause = true}),
            (Decision{.checkpoint = true, .course = Course::kStop}));
  EXPECT_EQ(decide({.hand_over = true, .pause = true}),
            (Decision{.snapshot = true, .course = Course::kHandOver}));
}

TEST(Boundary, DoesNothingWhereOthersCouldNotGoOnAndLooksAgainAfterTheNextStep) {
  EXPECT_EQ(
      decide({.stop = true, .hand_over = true, .pause = true, .snapshot_due = true, .can_resume = false}),
      Decision{});
}

TEST(Boundary, APauseStillSavesWhatIsDue) {
  const Decision decision = decide({.pause = true, .snapshot_due = true, .checkpoint_due = true});
  EXPECT_EQ(decision.course, Course::kPause);
  EXPECT_TRUE(decision.snapshot && decision.checkpoint);
}

TEST(Boundary, LooksAboutEveryTwentyMillisecondsButNeverAfterMoreThan64Steps) {
  EXPECT_EQ(decide({.step = seconds(1)}).next, 1);
  EXPECT_EQ(decide({.step = microseconds(1000)}).next, 20);
  EXPECT_EQ(decide({.step = microseconds(1)}).next, 64);
  EXPECT_EQ(decide({}).next, 64);
}

TEST(Boundary, ADecisionTravelsWhole) {
  const Decision decision{.snapshot = true, .checkpoint = false, .course = Course::kHandOver, .next = 7};
  EXPECT_EQ(from_words(to_words(decision)), decision);
  const Decision other{.snapshot = false, .checkpoint = true, .course = Course::kPause, .next = 1};
  EXPECT_EQ(from_words(to_words(other)), other);
}

}  // namespace
}  // namespace distbelief::elastic
