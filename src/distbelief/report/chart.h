#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "distbelief/report/axis.h"
#include "distbelief/report/curve.h"

// Charts as inline SVG. Colours come from the page's style, so one drawing serves light and dark mode. Pure
// functions.
namespace distbelief::report {

std::string escape_html(std::string_view text);

struct ChartSeries {
  std::string name;
  int colour = 1;  // class "c1", "c2", ...
  const Curve* curve = nullptr;
  double factor = 1;  // 100 for percent
};

// An event at x.
struct ChartMark {
  enum class Kind { kLoss, kScaling, kCheckpoint, kOther };
  double x = 0;
  Kind kind = Kind::kOther;
  std::string text;
};

struct Chart {
  enum class Shape {
    kLines,    // the mean of each piece, on a band from its lowest to its highest value
    kStacked,  // each series stacked on the previous one; all have the same pieces
  };
  std::string id;
  std::string title;
  std::string x_name;
  std::string y_name;
  AxisKind x_kind = AxisKind::kNumber;
  Shape shape = Shape::kLines;
  bool from_zero = false;
  double y_most = 0;  // upper end of the axis; 0: fits the curves
  std::vector<ChartSeries> series{};
  std::vector<ChartMark> marks{};
};

// A <figure> with heading, legend and drawing, or a sentence instead of the drawing when there is no data.
std::string render(const Chart& chart);

}  // namespace distbelief::report
