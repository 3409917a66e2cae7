#include "distbelief/compute/line_search.h"

#include <algorithm>
#include <cmath>

namespace distbelief::compute {
namespace {

constexpr double kDecrease = 1e-4;  // share of the decrease that the slope predicts
constexpr double kCurvature = 0.9;  // share of the slope that may remain
constexpr double kRounding = 1e-6;  // relative to the loss
constexpr double kGrowth = 4;       // factor per step while there is no bracket
constexpr double kMargin = 0.1;     // share of the bracket that a step keeps from its ends
constexpr double kNarrow = 1e-10;   // relative width of a bracket below which the search ends
constexpr std::int64_t kTries = 25;

// Minimum of the cubic through two points with these slopes; NaN when there is none.
double cubic_minimum(double a, double fa, double ga, double b, double fb, double gb) {
  const double d1 = ga + gb - 3 * (fa - fb) / (a - b);
  const double square = d1 * d1 - ga * gb;
  if (!(square >= 0)) return std::numeric_limits<double>::quiet_NaN();
  const double d2 = std::copysign(std::sqrt(square), b - a);
  return b - (b - a) * (gb + d2 - d1) / (gb - ga + 2 * d2);
}

}  // namespace

bool LineSearch::decreases(const Tried& tried) const {
  if (!std::isfinite(tried.loss) || !std::isfinite(tried.slope)) return false;
  if (tried.loss <= start_.loss + kDecrease * tried.step * start_.slope) return true;
  return tried.loss <= start_.loss + kRounding * std::fabs(start_.loss) &&
         tried.slope <= (2 * kDecrease - 1) * start_.slope;
}

LineSearch::Next LineSearch::end() const {
  // This step was tried and found good; after() accepts it when it is reported again.
  if (low_.step > 0) return {.verdict = Verdict::kTry, .step = low_.step};
  return {.verdict = Verdict::kFail};
}

LineSearch::Next LineSearch::inside_bracket() {
  const double width = std::fabs(high_.step - low_.step);
  if (width <= kNarrow * std::max(low_.step, high_.step)) return end();
  double step = std::numeric_limits<double>::quiet_NaN();
  if (std::isfinite(high_.loss) && std::isfinite(high_.slope))
    step = cubic_minimum(low_.step, low_.loss, low_.slope, high_.step, high_.loss, high_.slope);
  const double least = std::min(low_.step, high_.step) + kMargin * width;
  const double most = std::max(low_.step, high_.step) - kMargin * width;
  if (!std::isfinite(step)) step = 0.5 * (low_.step + high_.step);
  return {.verdict = Verdict::kTry, .step = std::clamp(step, least, most)};
}

LineSearch::Next LineSearch::after(double step, double loss, double slope) {
  const Tried tried{step, loss, slope};
  if (tries_ > 0 && step == low_.step) return {.verdict = Verdict::kAccept};
  ++tries_;
  const bool is_worse = low_.step > 0 && loss > low_.loss + kRounding * std::fabs(low_.loss);
  if (!decreases(tried) || is_worse) {
    high_ = tried;
    bracketed_ = true;
  } else if (std::fabs(slope) <= -kCurvature * start_.slope) {
    return {.verdict = Verdict::kAccept};
  } else {
    const bool is_beyond = bracketed_ ? slope * (high_.step - low_.step) >= 0 : slope >= 0;
    if (is_beyond) high_ = low_;
    bracketed_ = bracketed_ || is_beyond;
    low_ = tried;
  }
  if (tries_ >= kTries) return end();
  if (bracketed_) return inside_bracket();
  return {.verdict = Verdict::kTry, .step = step * kGrowth};
}

std::vector<double> LineSearch::numbers() const {
  return {start_.step, start_.loss, start_.slope,         low_.step,     low_.loss, low_.slope, high_.step,
          high_.loss,  high_.slope, bracketed_ ? 1. : 0., double(tries_)};
}

LineSearch LineSearch::from(std::span<const double> numbers) {
  LineSearch search;
  search.start_ = {numbers[0], numbers[1], numbers[2]};
  search.low_ = {numbers[3], numbers[4], numbers[5]};
  search.high_ = {numbers[6], numbers[7], numbers[8]};
  search.bracketed_ = numbers[9] != 0;
  search.tries_ = std::int64_t(numbers[10]);
  return search;
}

}  // namespace distbelief::compute
