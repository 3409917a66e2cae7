#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "distbelief/report/axis.h"
#include "distbelief/report/curve.h"

// Charts as inline SVG. Colours come from the page's style, so that light and dark need no second drawing.
// Pure functions.
namespace distbelief::report {

std::string escape_html(std::string_view text);

struct ChartSeries {
  std::string name;
  int colour = 1;  // class "c1", "c2", ...
  const Curve* curve = nullptr;
  double factor = 1;  // 100 for percent
};

// Something that happened at x.
struct ChartMark {
  enum class Kind { kLoss, kScaling, kCheckpoint, kOther };
  double x = 0;
  Kind kind = Kind::kOther;
  std::string text;
};

struct Chart {
  enum class Shape {
    kLines,    // mean of each piece; the range from lowest to highest behind it
    kStacked,  // each series on top of the one before; all have the same pieces
  };
  std::string id;
  std::string title;
  std::string x_name;
  std::string y_name;
  AxisKind x_kind = AxisKind::kNumber;
  Shape shape = Shape::kLines;
  bool from_zero = false;
  double y_most = 0;  // of the axis; 0: as the curves need
  std::vector<ChartSeries> series{};
  std::vector<ChartMark> marks{};
};

// A <figure> with heading, legend and drawing; a sentence instead of the drawing when there is nothing to
// draw.
std::string render(const Chart& chart);

}  // namespace distbelief::report
