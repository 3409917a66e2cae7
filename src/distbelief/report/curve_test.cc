#include "distbelief/report/curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace distbelief::report {
namespace {

std::int64_t points_in(const Curve& curve) {
  std::int64_t points = 0;
  for (const CurvePiece& piece : curve.pieces()) points += piece.count;
  return points;
}

TEST(Curve, ShortCurveKeepsEveryPoint) {
  Curve curve(8);
  for (int i = 0; i < 8; ++i) curve.add(i, i * i);
  ASSERT_EQ(curve.pieces().size(), 8U);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(curve.pieces()[std::size_t(i)].x(), i);
    EXPECT_EQ(curve.pieces()[std::size_t(i)].mean(), i * i);
  }
}

TEST(Curve, MillionPointsStayBoundedAndKeepTheOnePeak) {
  Curve curve(100);
  for (int i = 0; i < 1'000'000; ++i) curve.add(i, i == 777'777 ? 50.0 : std::sin(i / 1e5));
  EXPECT_LE(curve.pieces().size(), 100U);
  EXPECT_GT(curve.pieces().size(), 45U);
  EXPECT_EQ(points_in(curve), 1'000'000);
  double highest = 0, before = -1;
  for (const CurvePiece& piece : curve.pieces()) {
    EXPECT_GT(piece.first, before);
    before = piece.last;
    highest = std::max(highest, piece.high);
  }
  EXPECT_EQ(highest, 50.0);
  EXPECT_EQ(before, 999'999);
}

TEST(Curve, CutForgetsWhatIsDoneAgain) {
  Curve curve(4);
  for (int i = 1; i <= 16; ++i) curve.add(i, 1);
  curve.cut(9);
  ASSERT_FALSE(curve.empty());
  EXPECT_LE(curve.pieces().back().last, 9);
  for (int i = 9; i <= 20; ++i) curve.add(i, 2);
  EXPECT_EQ(curve.pieces().back().last, 20);
  EXPECT_EQ(curve.pieces().back().mean(), 2);
  curve.cut(0);
  EXPECT_TRUE(curve.empty());
}

TEST(Curve, WhatIsNotFiniteIsLeftOut) {
  Curve curve;
  curve.add(1, std::numeric_limits<double>::quiet_NaN());
  curve.add(2, std::numeric_limits<double>::infinity());
  curve.add(3, 4);
  ASSERT_EQ(curve.pieces().size(), 1U);
  EXPECT_EQ(curve.pieces()[0].mean(), 4);
}

}  // namespace
}  // namespace distbelief::report
