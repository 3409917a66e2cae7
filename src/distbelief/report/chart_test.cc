#include "distbelief/report/chart.h"

#include <gtest/gtest.h>

#include <limits>

namespace distbelief::report {
namespace {

Curve curve_of(std::initializer_list<double> values) {
  Curve curve;
  double x = 0;
  for (const double value : values) curve.add(x++, value);
  return curve;
}

TEST(Axis, TicksAreRoundAndInside) {
  const std::vector<Tick> found = ticks(AxisKind::kNumber, 0.13, 0.97, 5);
  ASSERT_GE(found.size(), 4U);
  EXPECT_EQ(found.front().label, "0.2");
  for (const Tick& tick : found) {
    EXPECT_GE(tick.value, 0.13);
    EXPECT_LE(tick.value, 0.97);
  }
}

TEST(Axis, TimesHaveUnitsOfPeople) {
  EXPECT_EQ(ticks(AxisKind::kSeconds, 0, 600, 5).at(1).label, "2 min");
  EXPECT_EQ(ticks(AxisKind::kSeconds, 0, 20, 5).at(1).label, "5 s");
  EXPECT_EQ(ticks(AxisKind::kSeconds, 0, 36000, 6).at(1).label, "2 h");
  EXPECT_EQ(short_time(7500), "2 h 5 min");
  EXPECT_EQ(short_time(200), "3 min 20 s");
}

TEST(Axis, HasFewTicksHoweverFarFromZero) {
  EXPECT_LE(ticks(AxisKind::kNumber, -1e18, -1e18 + 256, 7).size(), 28U);
  EXPECT_LE(ticks(AxisKind::kSeconds, 1e300, 1.0000001e300, 7).size(), 28U);
  const double infinite = std::numeric_limits<double>::infinity();
  for (const AxisKind kind : {AxisKind::kNumber, AxisKind::kLogarithm, AxisKind::kSeconds}) {
    EXPECT_TRUE(ticks(kind, 1, infinite, 5).empty());
    EXPECT_TRUE(ticks(kind, 2, 2, 5).empty());
  }
}

TEST(Axis, LogarithmHasPowersOfTen) {
  const std::vector<Tick> found = ticks(AxisKind::kLogarithm, 0.001, 10000, 5);
  ASSERT_GE(found.size(), 4U);
  EXPECT_DOUBLE_EQ(found[0].value, 0.001);
  EXPECT_EQ(found.back().label, "1000");
}

TEST(Chart, DrawsAPathPerSeriesInsideItsFrame) {
  const Curve loss = curve_of({2, 1.5, 1.25, 1.2}), test = curve_of({2.1, 1.6, 1.3, 1.25});
  const std::string svg = render({.id = "loss",
                                  .title = "Loss",
                                  .x_name = "step",
                                  .y_name = "loss",
                                  .series = {{"training", 1, &loss}, {"test", 2, &test}},
                                  .marks = {{2, ChartMark::Kind::kLoss, "lost: worker 1"}}});
  EXPECT_NE(svg.find(R"(class="line c1" data-name="training")"), std::string::npos);
  EXPECT_NE(svg.find(R"(class="line c2" data-name="test")"), std::string::npos);
  EXPECT_NE(svg.find("<title>lost: worker 1</title>"), std::string::npos);
  EXPECT_NE(svg.find("training from 2 to 1.2"), std::string::npos) << "for who does not see it";
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(Chart, OnePointAndConstantCurvesHaveAFrame) {
  for (const auto& values : {std::initializer_list<double>{3}, std::initializer_list<double>{0, 0, 0}}) {
    const Curve curve = curve_of(values);
    const std::string svg =
        render({.id = "a", .title = "A", .x_name = "", .y_name = "", .series = {{"a", 1, &curve}}});
    EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
    EXPECT_EQ(svg.find("inf"), std::string::npos) << svg;
  }
}

TEST(Chart, NothingToDrawIsSaid) {
  const Curve nothing;
  EXPECT_NE(render({.id = "a", .title = "A", .x_name = "", .y_name = "", .series = {{"a", 1, &nothing}}})
                .find("nothing was measured"),
            std::string::npos);
}

TEST(Chart, NamesCannotBecomeMarkup) {
  const Curve curve = curve_of({1, 2});
  const std::string svg = render({.id = "a",
                                  .title = "<script>",
                                  .x_name = "",
                                  .y_name = "",
                                  .series = {{"\"><img onerror=x>", 1, &curve}, {"b", 2, &curve}}});
  EXPECT_EQ(svg.find("<script>"), std::string::npos);
  EXPECT_EQ(svg.find("<img"), std::string::npos);
}

}  // namespace
}  // namespace distbelief::report
