#include "distbelief/report/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace distbelief::report {
namespace {

using std::chrono::milliseconds;

ProgressState half_way() {
  return {.epoch = 3,
          .epochs = 5,
          .step = 1172,
          .steps = 2344,
          .loss = 0.31244,
          .samples_per_second = 12'345.0,
          .seconds_left = 83.0,
          .test_accuracy = 0.912};
}

std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

TEST(RenderBar, ShowsEpochStepLossRateAndTimeLeftInEightyColumns) {
  EXPECT_EQ(render_bar(half_way(), 80),
            "epoch 3/5 [=====>      ] step 1172/2344  loss 0.3124  12.3k samples/s  1:23 left");
  EXPECT_EQ(
      render_bar(half_way(), 100),
      "epoch 3/5 [=========>          ] step 1172/2344  loss 0.3124  test 91.2%  12.3k samples/s  1:23 left");
}

TEST(RenderBar, UsesBlocksOnlyWhenTold) {
  ProgressState state = half_way();
  state.step = 100;
  state.steps = 240;
  EXPECT_EQ(render_bar(state, 38, Glyphs::kUnicode), "[████▏     ] step 100/240  loss 0.3124");
  EXPECT_EQ(render_bar(state, 38), "[===>      ] step 100/240  loss 0.3124");
}

TEST(RenderBar, IsNeverWiderThanTheTerminal) {
  ProgressState state = half_way();
  for (std::int64_t step = 0; step <= state.steps; step += 293) {
    state.step = step;
    for (int columns = 0; columns <= 130; ++columns) {
      EXPECT_LE(width(render_bar(state, columns)), static_cast<std::size_t>(columns));
      EXPECT_LE(width(render_bar(state, columns, Glyphs::kUnicode)), static_cast<std::size_t>(columns));
    }
  }
}

TEST(RenderBar, LeavesOutWhatMattersLeastFirst) {
  const std::string narrow = render_bar(half_way(), 60);
  EXPECT_EQ(narrow.find("samples/s"), std::string::npos) << narrow;
  EXPECT_NE(narrow.find("step 1172/2344"), std::string::npos) << narrow;
  EXPECT_NE(narrow.find("loss 0.3124"), std::string::npos) << narrow;
  EXPECT_NE(narrow.find("1:23 left"), std::string::npos) << narrow;
  EXPECT_EQ(render_bar(half_way(), 23), "[==>   ] step 1172/2344");
  EXPECT_EQ(render_bar(half_way(), 22), " 50%");
  EXPECT_EQ(render_bar(half_way(), 2), " 5");
}

TEST(RenderBar, IsFullOnlyAtTheEnd) {
  ProgressState state = half_way();
  state.step = state.steps - 1;
  const std::string nearly = render_bar(state, 80);
  EXPECT_NE(nearly.find("> ] step 2343/2344"), std::string::npos) << nearly;
  EXPECT_EQ(render_bar(state, 4), " 99%");
  state.step = state.steps;
  const std::string full = render_bar(state, 80);
  EXPECT_NE(full.find("==] step 2344/2344"), std::string::npos) << full;
  EXPECT_EQ(render_bar(state, 4), "100%");
}

TEST(RenderBar, StandsNumbersThatAreNotThere) {
  ProgressState state;
  state.loss = std::numeric_limits<double>::quiet_NaN();
  state.seconds_left = std::numeric_limits<double>::infinity();
  const std::string text = render_bar(state, 80, Glyphs::kUnicode);
  EXPECT_NE(text.find("] step 0/0  loss nan"), std::string::npos) << text;
  EXPECT_NE(text.find("--:-- left"), std::string::npos) << text;
}

TEST(RenderLine, SaysEverythingInOneLine) {
  EXPECT_EQ(render_line(half_way()),
            "epoch 3/5  step 1172/2344  loss 0.3124  test 91.2%  12.3k samples/s  1:23 left");
  ProgressState state = half_way();
  state.test_accuracy.reset();
  state.loss = 0.00012;
  state.samples_per_second = 7.25;
  state.seconds_left = 7384.2;
  EXPECT_EQ(render_line(state), "epoch 3/5  step 1172/2344  loss 1.20e-04  7.2 samples/s  2:03:05 left");
}

// Collects the terminal output so far.
class ProgressTest : public ::testing::Test {
 protected:
  ProgressTest() : out_(open_memstream(&text_, &size_)) {}
  ~ProgressTest() override {
    std::fclose(out_);
    std::free(text_);
  }
  std::string written() {
    std::fflush(out_);
    return {text_, size_};
  }
  Progress progress(ProgressStyle style, int columns = 80) {
    return Progress({.style = style, .out = out_, .columns = columns});
  }
  static Progress::Time at(int ms) { return Progress::Time(milliseconds(ms)); }
  std::size_t count(char c) {
    const std::string text = written();
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), c));
  }

  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* out_;
};

TEST_F(ProgressTest, BarIsDrawnAtMostTenTimesASecond) {
  Progress bar = progress(ProgressStyle::kBar);
  for (int ms = 0; ms < 1000; ++ms) bar.update(half_way(), at(ms));
  EXPECT_EQ(count('\r'), 10u);
  EXPECT_EQ(count('\n'), 0u);
}

TEST_F(ProgressTest, BarEndsWithTheLastStateAndANewline) {
  Progress bar = progress(ProgressStyle::kBar);
  ProgressState state = half_way();
  bar.update(state, at(0));
  state.step = state.steps;
  bar.update(state, at(1));
  bar.finish();
  EXPECT_EQ(written(), "\r" + render_bar(half_way(), 80) + "\r" + render_bar(state, 80) + "\n");
  bar.finish();
  EXPECT_EQ(count('\n'), 1u);
}

TEST_F(ProgressTest, BarCoversALongerOneWithBlanks) {
  Progress bar = progress(ProgressStyle::kBar, 120);
  ProgressState state = half_way();
  bar.update(state, at(0));
  const std::size_t before = render_bar(state, 120).size();
  state.test_accuracy.reset();
  state.samples_per_second = 1.0;
  const std::string shorter = render_bar(state, 120);
  ASSERT_LT(shorter.size(), before);
  bar.update(state, at(100));
  EXPECT_TRUE(written().ends_with("\r" + shorter + std::string(before - shorter.size(), ' '))) << written();
}

TEST_F(ProgressTest, BarLeavesALinePerEpoch) {
  Progress bar = progress(ProgressStyle::kBar);
  bar.update(half_way(), at(0));
  bar.end_epoch(half_way(), at(1));
  EXPECT_TRUE(written().ends_with("\r" + render_line(half_way()) + std::string(80 - 78, ' ') + "\n"))
      << written();
  bar.finish();
  EXPECT_EQ(count('\n'), 1u);
}

TEST_F(ProgressTest, ClearTakesTheBarAway) {
  Progress bar = progress(ProgressStyle::kBar);
  bar.clear();
  EXPECT_EQ(written(), "");
  bar.update(half_way(), at(0));
  bar.clear();
  EXPECT_TRUE(written().ends_with("\r" + std::string(render_bar(half_way(), 80).size(), ' ') + "\r"));
}

TEST_F(ProgressTest, PlainPrintsALineNowAndThenAndPerEpoch) {
  Progress plain = progress(ProgressStyle::kPlain);
  for (int ms = 0; ms <= 10'000; ms += 10) plain.update(half_way(), at(ms));
  EXPECT_EQ(count('\n'), 3u);
  plain.end_epoch(half_way(), at(10'001));
  EXPECT_EQ(count('\n'), 4u);
  plain.update(half_way(), at(10'002));
  EXPECT_EQ(count('\n'), 4u);
  plain.finish();
  EXPECT_EQ(count('\n'), 5u);
  EXPECT_EQ(count('\r'), 0u);
}

TEST_F(ProgressTest, NonePrintsNothing) {
  Progress none = progress(ProgressStyle::kNone);
  none.update(half_way(), at(0));
  none.end_epoch(half_way(), at(1));
  none.update(half_way(), at(2));
  none.finish();
  EXPECT_EQ(written(), "");
}

}  // namespace
}  // namespace distbelief::report
