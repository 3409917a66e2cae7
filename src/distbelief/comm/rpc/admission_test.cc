#include "distbelief/comm/rpc/admission.h"

#include <gtest/gtest.h>

#include <set>

namespace distbelief::comm {
namespace {

using namespace std::chrono_literals;

const auto kAllSpeak = [](int) { return true; };
const Admission::Clock::time_point kNow{};

Admission few_turns() {
  return Admission({.turns = 2,
                    .turns_per_second = 4,
                    .offence_turns = 5,
                    .shared_turns = 3,
                    .shared_per_second = 8,
                    .line = 4,
                    .waiting = 6});
}

TEST(Admission, ASourceWithoutTurnsGetsOneFromTimeToTime) {
  Admission admission = few_turns();
  for (int visitor = 1; visitor <= 4; ++visitor) EXPECT_EQ(admission.arrive("a", visitor), std::nullopt);
  EXPECT_EQ(admission.next(kNow, kAllSpeak), 1);
  EXPECT_EQ(admission.next(kNow, kAllSpeak), 2);
  EXPECT_EQ(admission.next(kNow + 200ms, kAllSpeak), std::nullopt);
  EXPECT_EQ(admission.next(kNow + 250ms, kAllSpeak), 3);
  EXPECT_EQ(admission.next(kNow + 250ms, kAllSpeak), std::nullopt);
  EXPECT_EQ(admission.waiting(), 1u);
}

TEST(Admission, WhoHasProvenItselfGivesItsTurnBack) {
  Admission admission = few_turns();
  for (int visitor = 0; visitor < 100; ++visitor) {
    EXPECT_EQ(admission.arrive("a", visitor), std::nullopt);
    EXPECT_EQ(admission.next(kNow, kAllSpeak), visitor);
    admission.prove("a");
  }
}

TEST(Admission, AnOffenceTakesTurnsAndMoreAreOwed) {
  Admission admission = few_turns();
  for (int i = 0; i < 9; ++i) admission.offend("a");
  admission.arrive("a", 1);
  admission.arrive("b", 2);
  EXPECT_EQ(admission.next(kNow, kAllSpeak), 2);
  EXPECT_EQ(admission.next(kNow, kAllSpeak), std::nullopt);
  EXPECT_EQ(admission.next(kNow + 1s, kAllSpeak), std::nullopt) << "4 of 6";
  EXPECT_EQ(admission.next(kNow + 1500ms, kAllSpeak), 1) << "no more than 5 were owed";
}

TEST(Admission, KnownOnesAreNotSentAwayForStrangers) {
  Admission admission({.waiting = 3});
  admission.prove("a");
  admission.arrive("a", 1);
  for (const int visitor : {2, 3})
    EXPECT_EQ(admission.arrive("s" + std::to_string(visitor), visitor), std::nullopt);
  EXPECT_EQ(admission.arrive("t", 4), 4) << "who came first stays";
  EXPECT_TRUE(std::set({2, 3}).contains(admission.arrive("a", 5).value())) << "a stranger makes room";
  EXPECT_TRUE(admission.arrive("a", 6));
  EXPECT_EQ(admission.arrive("a", 7), 7) << "all are known";
}

TEST(Admission, SourcesHaveTheirTurnsOneAfterAnother) {
  Admission admission = few_turns();
  for (const int visitor : {1, 2, 3}) admission.arrive("strangers", visitor);
  admission.arrive("newcomer", 9);
  std::set<int> first;
  for (int i = 0; i < 2; ++i) first.insert(admission.next(kNow, kAllSpeak).value());
  EXPECT_EQ(first, (std::set{1, 9})) << "however many knock elsewhere";
}

TEST(Admission, SourcesThatAreNotKnownShareTurns) {
  Admission admission = few_turns();
  admission.prove("known");
  for (int i = 0; i < 5; ++i) admission.arrive("stranger " + std::to_string(i), i);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(admission.next(kNow, kAllSpeak));
  EXPECT_EQ(admission.next(kNow, kAllSpeak), std::nullopt);
  admission.arrive("known", 9);
  EXPECT_EQ(admission.next(kNow, kAllSpeak), 9) << "not for those who are known";
  EXPECT_TRUE(admission.next(kNow + 125ms, kAllSpeak));
}

TEST(Admission, WhoIsNotReadyHoldsNobodyUp) {
  Admission admission = few_turns();
  admission.arrive("a", 1);
  admission.arrive("a", 2);
  const auto is_second = [](int visitor) { return visitor == 2; };
  EXPECT_EQ(admission.next(kNow, is_second), 2);
  EXPECT_EQ(admission.next(kNow, is_second), std::nullopt);
  admission.leave(1);
  EXPECT_EQ(admission.waiting(), 0u);
}

TEST(Admission, TheLongestLineMakesRoomForANewcomer) {
  Admission admission = few_turns();
  for (const int visitor : {1, 2, 3, 4}) EXPECT_EQ(admission.arrive("a", visitor), std::nullopt);
  EXPECT_EQ(admission.arrive("a", 5), 5) << "its own line is full";
  for (const int visitor : {11, 12}) EXPECT_EQ(admission.arrive("b", visitor), std::nullopt);
  EXPECT_EQ(admission.arrive("c", 21), 4);
  EXPECT_EQ(admission.waiting(), 6u);
}

// Hostile visitors that return as soon as they can, from 20 addresses and from the newcomer's own.
class Siege {
 public:
  // Seconds until a visitor from `source` is admitted; it returns each time it is sent away.
  double seconds_to_get_in(const std::string& source) {
    const auto came = now_;
    const auto is_over = [&] { return now_ > came + 60s; };
    for (waits_ = false; !is_over(); now_ += 20ms) {
      if (!waits_) waits_ = admission_.arrive(source, kNewcomer) != kNewcomer;
      knock();
      while (const auto visitor = admission_.next(now_, kAllSpeak))
        if (*visitor == kNewcomer) return std::chrono::duration<double>(now_ - came).count();
    }
    return 60;
  }

 private:
  static constexpr int kNewcomer = 1;
  void knock() {
    for (int i = 0; i < 100; ++i) {
      const std::string source = i % 5 == 0 ? "shared" : "stranger " + std::to_string(i % 20);
      if (admission_.arrive(source, ++last_stranger_) == kNewcomer) waits_ = false;
    }
  }
  Admission admission_{{}};
  Admission::Clock::time_point now_{kNow};
  int last_stranger_ = 1000;
  bool waits_ = false;
};

TEST(Admission, ANewcomerIsLetInWithinBoundedTimeWhileStrangersKnock) {
  Siege siege;
  EXPECT_EQ(siege.seconds_to_get_in("nobody comes from there"), 0) << "turns are left";
  for (int i = 0; i < 10; ++i)
    EXPECT_LE(siege.seconds_to_get_in("host " + std::to_string(i)), 2) << "17 are in turn, 16 a second";
  for (int i = 0; i < 10; ++i)
    EXPECT_LE(siege.seconds_to_get_in("shared"), 10) << "128 / 17 are before it in its line, one a second";
}

}  // namespace
}  // namespace distbelief::comm
