#include "distbelief/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace distbelief::report {
namespace {

constexpr double kWidth = 640, kHeight = 280;
constexpr double kLeft = 58, kRight = 626, kTop = 14, kBottom = 238;

struct Frame {
  double x_low = 0, x_high = 1, y_low = 0, y_high = 1;
  bool logarithm = false;

  double x(double value) const { return kLeft + (kRight - kLeft) * (value - x_low) / (x_high - x_low); }
  double y(double value) const {
    const double share = logarithm ? std::log(std::max(value, y_low) / y_low) / std::log(y_high / y_low)
                                   : (value - y_low) / (y_high - y_low);
    return kBottom - (kBottom - kTop) * share;
  }
};

struct Bounds {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

bool is_empty(const Chart& chart) {
  return std::all_of(chart.series.begin(), chart.series.end(),
                     [](const ChartSeries& series) { return series.curve->empty(); });
}

Frame frame_of(const Chart& chart) {
  Bounds x, y;
  for (const ChartSeries& series : chart.series)
    for (const CurvePiece& piece : series.curve->pieces()) {
      x.take(piece.first);
      x.take(piece.last);
      y.take(series.factor * piece.low);
      y.take(series.factor * piece.high);
    }
  for (const ChartMark& mark : chart.marks) x.take(mark.x);
  Frame frame{.x_low = std::min(0.0, x.low), .x_high = x.high, .y_low = y.low, .y_high = y.high};
  if (frame.x_high <= frame.x_low) frame.x_high = frame.x_low + 1;
  if (chart.shape == Chart::Shape::kStacked) frame.y_low = 0, frame.y_high = chart.y_most;
  frame.logarithm =
      chart.shape == Chart::Shape::kLines && !chart.from_zero && y.low > 0 && y.high > 20 * y.low;
  if (frame.logarithm) return frame;
  if (chart.from_zero) frame.y_low = std::min(0.0, y.low);
  const double room = 0.05 * std::max(frame.y_high - frame.y_low, 1e-6 * std::abs(frame.y_high) + 1e-12);
  if (chart.shape == Chart::Shape::kLines) frame.y_high += room;
  if (chart.shape == Chart::Shape::kLines && !chart.from_zero) frame.y_low -= room;
  if (chart.y_most > 0) frame.y_high = std::min(frame.y_high, chart.y_most);
  return frame;
}

void draw_axes(std::string& out, const Chart& chart, const Frame& frame) {
  auto to = std::back_inserter(out);
  const AxisKind y_kind = frame.logarithm ? AxisKind::kLogarithm : AxisKind::kNumber;
  for (const Tick& tick : ticks(y_kind, frame.y_low, frame.y_high, 5))
    fmt::format_to(
        to,
        R"(<path class="grid" d="M{:.0f} {:.1f}H{:.0f}"/><text class="y" x="{:.0f}" y="{:.1f}">{}</text>)",
        kLeft, frame.y(tick.value), kRight, kLeft - 7, frame.y(tick.value) + 3.5, tick.label);
  for (const Tick& tick : ticks(chart.x_kind, frame.x_low, frame.x_high, 7))
    fmt::format_to(
        to,
        R"(<path class="tick" d="M{0:.1f} {1:.0f}v4"/><text class="x" x="{0:.1f}" y="{2:.0f}">{3}</text>)",
        frame.x(tick.value), kBottom, kBottom + 17, tick.label);
  fmt::format_to(to, R"(<path class="axis" d="M{:.0f} {:.0f}H{:.0f}"/>)", kLeft, kBottom, kRight);
  fmt::format_to(to, R"(<text class="name" x="{:.0f}" y="{:.0f}">{}</text>)", (kLeft + kRight) / 2,
                 kBottom + 35, escape_html(chart.x_name));
  fmt::format_to(to, R"svg(<text class="name" transform="translate(13 {:.0f}) rotate(-90)">{}</text>)svg",
                 (kTop + kBottom) / 2, escape_html(chart.y_name + (frame.logarithm ? " (logarithmic)" : "")));
}

void draw_band(std::string& out, const ChartSeries& series, const Frame& frame) {
  const auto& pieces = series.curve->pieces();
  const bool has_range =
      std::any_of(pieces.begin(), pieces.end(), [](const CurvePiece& p) { return p.low < p.high; });
  if (!has_range) return;
  auto to = std::back_inserter(out);
  fmt::format_to(to, R"(<path class="band c{}" d="M)", series.colour);
  for (const CurvePiece& piece : pieces)
    fmt::format_to(to, "{:.1f} {:.1f} ", frame.x(piece.x()), frame.y(series.factor * piece.high));
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece)
    fmt::format_to(to, "{:.1f} {:.1f} ", frame.x(piece->x()), frame.y(series.factor * piece->low));
  out += R"(Z"/>)";
}

void draw_line(std::string& out, const ChartSeries& series, const Frame& frame) {
  constexpr std::size_t kFewPoints = 60;
  const auto& pieces = series.curve->pieces();
  auto to = std::back_inserter(out);
  fmt::format_to(to, R"(<path class="line c{}" data-name="{}" d="M)", series.colour,
                 escape_html(series.name));
  for (const CurvePiece& piece : pieces)
    fmt::format_to(to, "{:.1f} {:.1f} ", frame.x(piece.x()), frame.y(series.factor * piece.mean()));
  out += R"("/>)";
  if (pieces.size() > kFewPoints) return;
  for (const CurvePiece& piece : pieces)
    fmt::format_to(to, R"(<circle class="c{}" r="2.4" cx="{:.1f}" cy="{:.1f}"/>)", series.colour,
                   frame.x(piece.x()), frame.y(series.factor * piece.mean()));
}

void draw_stack(std::string& out, const Chart& chart, const Frame& frame) {
  auto to = std::back_inserter(out);
  const std::size_t points = chart.series.front().curve->pieces().size();
  std::vector<double> below(points), above(points);
  for (const ChartSeries& series : chart.series) {
    const auto& pieces = series.curve->pieces();
    for (std::size_t i = 0; i < points; ++i) above[i] = below[i] + series.factor * pieces[i].mean();
    fmt::format_to(to, R"(<path class="area c{}" data-name="{}" d="M)", series.colour,
                   escape_html(series.name));
    // Each piece is as wide as the time that it covers, so a run with a single line still shows a bar.
    const auto left = [&](std::size_t i) {
      return i == 0 ? frame.x_low : (pieces[i - 1].last + pieces[i].first) / 2;
    };
    const auto right = [&](std::size_t i) { return i + 1 == points ? frame.x_high : left(i + 1); };
    for (std::size_t i = 0; i < points; ++i)
      fmt::format_to(to, "{:.1f} {:.1f}H{:.1f}L", frame.x(left(i)), frame.y(above[i]), frame.x(right(i)));
    for (std::size_t i = points; i-- > 0;)
      fmt::format_to(to, "{:.1f} {:.1f}H{:.1f}{}", frame.x(right(i)), frame.y(below[i]), frame.x(left(i)),
                     i == 0 ? "" : "L");
    out += R"(Z"/>)";
    below = above;
  }
}

void draw_marks(std::string& out, const Chart& chart, const Frame& frame) {
  constexpr const char* kClasses[] = {"loss", "scaling", "checkpoint", "other"};
  for (const ChartMark& mark : chart.marks) {
    const bool small = mark.kind == ChartMark::Kind::kCheckpoint;
    const double top = small ? kBottom - 7 : mark.kind == ChartMark::Kind::kOther ? kBottom - 14 : kTop;
    fmt::format_to(std::back_inserter(out),
                   R"(<path class="mark {}" d="M{:.1f} {:.0f}V{:.0f}"><title>{}</title></path>)",
                   kClasses[int(mark.kind)], frame.x(mark.x), kBottom, top, escape_html(mark.text));
  }
}

std::string legend(const Chart& chart) {
  if (chart.series.size() < 2) return "";
  std::string out = R"(<ul class="legend">)";
  for (const ChartSeries& series : chart.series)
    out += fmt::format(R"(<li><i class="c{}"></i>{}</li>)", series.colour, escape_html(series.name));
  return out + "</ul>";
}

// Description for readers that do not see the drawing.
std::string description(const Chart& chart) {
  std::string out;
  for (const ChartSeries& series : chart.series) {
    if (series.curve->empty()) continue;
    const auto& pieces = series.curve->pieces();
    out += fmt::format("{} from {} to {}. ", series.name, short_number(series.factor * pieces.front().mean()),
                       short_number(series.factor * pieces.back().mean()));
  }
  return out;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t')
      out += c;
  }
  return out;
}

std::string render(const Chart& chart) {
  std::string out = fmt::format(R"(<figure id="{}"><figcaption>{}{}</figcaption>)", escape_html(chart.id),
                                escape_html(chart.title), legend(chart));
  if (is_empty(chart)) return out + R"(<p class="none">nothing was measured yet</p></figure>)";
  const Frame frame = frame_of(chart);
  out += fmt::format(
      R"(<svg class="chart" role="img" aria-label="{}. {}" viewBox="0 0 {:.0f} {:.0f}" data-x="{:g} {:g}" data-y="{:g} {:g}" data-log="{}" data-kind="{}">)",
      escape_html(chart.title), escape_html(description(chart)), kWidth, kHeight, frame.x_low, frame.x_high,
      frame.y_low, frame.y_high, frame.logarithm ? 1 : 0,
      chart.x_kind == AxisKind::kSeconds ? "time" : "step");
  if (chart.shape == Chart::Shape::kStacked) draw_stack(out, chart, frame);
  draw_axes(out, chart, frame);
  if (chart.shape == Chart::Shape::kLines) {
    for (const ChartSeries& series : chart.series) draw_band(out, series, frame);
    for (const ChartSeries& series : chart.series)
      if (!series.curve->empty()) draw_line(out, series, frame);
  }
  draw_marks(out, chart, frame);
  return out + "</svg></figure>";
}

}  // namespace distbelief::report
