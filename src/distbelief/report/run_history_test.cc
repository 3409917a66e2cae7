#include "distbelief/report/run_history.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "distbelief/base/scratch_folder.h"

namespace distbelief::report {
namespace {

using Json = nlohmann::json;

class RunHistoryTest : public ::testing::Test {
 protected:
  void append(const char* file, const Json& line) { append_text(file, line.dump() + "\n"); }
  void append_text(const char* file, const std::string& text) {
    std::ofstream(scratch_.path() / file, std::ios::app) << text;
  }
  void step(int number, double loss, double seconds, double clock) {
    append("metrics.jsonl", {{"step", number},
                             {"loss", loss},
                             {"loss_mean", loss},
                             {"lr", 0.1},
                             {"samples_per_second", 100.0},
                             {"seconds", seconds},
                             {"unix_seconds", clock},
                             {"phase_seconds", {{"forward", seconds / 4}, {"backward", 3 * seconds / 4}}}});
  }

  ScratchFolder scratch_;
};

TEST_F(RunHistoryTest, TakesEachLineOnceWhileTheFileGrows) {
  RunHistory history(scratch_.path());
  history.read_new();
  EXPECT_TRUE(history.loss().empty());
  step(1, 2.0, 1, 1001);
  history.read_new();
  step(2, 1.0, 2, 1002);
  append_text("metrics.jsonl", R"({"step": 3, "loss")");  // still being written
  history.read_new();
  history.read_new();
  ASSERT_EQ(history.loss().pieces().size(), 2U);
  EXPECT_EQ(history.loss().pieces()[1].mean(), 1.0);
  append_text("metrics.jsonl", R"(: 0.5, "loss_mean": 0.5, "seconds": 3})"
                               "\n");
  history.read_new();
  EXPECT_EQ(history.steps(), 3);
}

TEST_F(RunHistoryTest, StepsDoneAgainCountOnceAndTheirTimeTwice) {
  for (int i = 1; i <= 4; ++i) step(i, 10 - i, i, 1000 + i);
  for (int i = 3; i <= 5; ++i) step(i, 1, i - 2, 1010 + i);  // another process, from step 2 on
  RunHistory history(scratch_.path());
  history.read_new();
  ASSERT_EQ(history.loss().pieces().size(), 5U);
  EXPECT_EQ(history.loss().pieces()[1].mean(), 8);
  EXPECT_EQ(history.loss().pieces()[2].mean(), 1);
  EXPECT_EQ(history.throughput().pieces().size(), 7U);
  EXPECT_EQ(history.end() - history.begin(), 15);
}

TEST_F(RunHistoryTest, PhasesAreSharesOfEachInterval) {
  step(1, 2, 1, 1001);
  step(2, 2, 3, 1003);
  RunHistory history(scratch_.path());
  history.read_new();
  const auto& forward = history.phase_shares()[std::size_t(Phase::kForward)].pieces();
  ASSERT_EQ(forward.size(), 2U);
  EXPECT_DOUBLE_EQ(forward[1].mean(), 0.25);
}

TEST_F(RunHistoryTest, EventsWithoutAStepGetTheStepOfTheirTime) {
  for (int i = 1; i <= 10; ++i) step(i, 1, i, 1000 + i);
  append("events.jsonl", {{"event", "started"}, {"unix_seconds", 1000.0}, {"step", 0}});
  append("events.jsonl", {{"event", "scale"}, {"unix_seconds", 1006.5}, {"workers", 4}});
  RunHistory history(scratch_.path());
  history.read_new();
  const std::vector<RunEvent> events = history.events();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].step, 6);
  EXPECT_EQ(events[1].text, "workers 4");
  EXPECT_TRUE(history.goes_on());
  append("events.jsonl", {{"event", "finished"}, {"unix_seconds", 1011.0}});
  history.read_new();
  EXPECT_FALSE(history.goes_on());
}

TEST_F(RunHistoryTest, ManyCheckpointsAreThinnedOut) {
  for (int i = 0; i < 2000; ++i)
    append("events.jsonl", {{"event", "checkpoint"}, {"unix_seconds", 1000.0 + i}, {"step", i}});
  RunHistory history(scratch_.path());
  history.read_new();
  const std::size_t kept = history.events().size();
  EXPECT_LE(kept, 201U);
  EXPECT_GE(kept, 100U);
  EXPECT_EQ(std::int64_t(kept) + history.events_left_out(), 2000);
}

TEST_F(RunHistoryTest, NumbersThatCannotBeAreLeftOut) {
  append_text("metrics.jsonl", R"({"step": 1e300, "loss": 1, "loss_mean": 1, "seconds": 1}
{"step": -1, "loss": 1, "loss_mean": 1, "seconds": 1}
{"step": 1, "loss": 1, "loss_mean": 1, "seconds": 1, "phase_seconds": {"forward": -1e308, "data": 1}}
{"step": 2, "loss": 1, "loss_mean": 1, "seconds": 2, "phase_seconds": {"forward": 1e308, "data": 2}}
)");
  append("events.jsonl", {{"event", std::string(1000, 'x')}, {"unix_seconds", 1e300}, {"step", 1e300}});
  RunHistory history(scratch_.path());
  history.read_new();
  EXPECT_EQ(history.steps(), 2);
  EXPECT_EQ(history.loss().pieces().size(), 2U);
  for (const Curve& curve : history.phase_shares())
    EXPECT_EQ(curve.pieces().size(), history.phase_shares()[0].pieces().size());
  ASSERT_EQ(history.events().size(), 1U);
  EXPECT_EQ(history.events()[0].kind.size(), 100U);
}

TEST_F(RunHistoryTest, WhatIsNoJsonIsPassedOver) {
  append_text("metrics.jsonl", "\x01 garbage\n[1, 2]\n{\"step\": \"three\", \"loss\": []}\n");
  append_text("metrics.jsonl", std::string(3 << 20, 'x') + "\n");
  append_text("events.jsonl",
              R"({"event": "x", "deep": )" + std::string(200'000, '[') + std::string(200'000, ']') + "}\n");
  step(1, 2.0, 1, 1001);
  RunHistory history(scratch_.path());
  history.read_new();
  ASSERT_EQ(history.loss().pieces().size(), 1U);
  EXPECT_TRUE(history.events().empty());
}

}  // namespace
}  // namespace distbelief::report
