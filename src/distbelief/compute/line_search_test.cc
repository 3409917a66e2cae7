#include "distbelief/compute/line_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace distbelief::compute {
namespace {

using Verdict = LineSearch::Verdict;
using Function = std::function<std::pair<double, double>(double)>;  // loss and slope at a step

struct Found {
  Verdict verdict = Verdict::kFail;
  double step = 0;
  int tries = 0;
};

// Converts to numbers and back after every try: the search has no other state.
Found search(const Function& function, double first) {
  const auto [loss, slope] = function(0);
  std::vector<double> numbers = LineSearch(loss, slope).numbers();
  Found found{.step = first};
  for (; found.tries < 100;) {
    LineSearch line = LineSearch::from(numbers);
    const auto [new_loss, new_slope] = function(found.step);
    ++found.tries;
    const LineSearch::Next next = line.after(found.step, new_loss, new_slope);
    found.verdict = next.verdict;
    if (next.verdict != Verdict::kTry) return found;
    found.step = next.step;
    numbers = line.numbers();
  }
  return found;
}

void expect_wolfe(const Function& function, const Found& found) {
  const auto [f0, g0] = function(0);
  const auto [f, g] = function(found.step);
  ASSERT_EQ(found.verdict, Verdict::kAccept);
  EXPECT_LE(f, f0 + 1e-4 * found.step * g0);
  EXPECT_LE(std::fabs(g), 0.9 * std::fabs(g0));
}

TEST(LineSearch, TakesAGoodStepAtOnce) {
  const Function parabola = [](double t) { return std::pair{(t - 1) * (t - 1), 2 * (t - 1)}; };
  const Found found = search(parabola, 0.9);
  EXPECT_EQ(found.tries, 1);
  expect_wolfe(parabola, found);
}

TEST(LineSearch, FindsAWolfeStepFromAnyFirstStep) {
  const Function steep = [](double t) {
    return std::pair{std::pow(t - 3, 4) - 100 * t, 4 * std::pow(t - 3, 3) - 100};
  };
  const Function wavy = [](double t) {
    return std::pair{0.05 * std::sin(9 * t) + 0.05 * t * t - t, 0.45 * std::cos(9 * t) + 0.1 * t - 1};
  };
  for (const double first : {1e-6, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e6}) {
    expect_wolfe(steep, search(steep, first));
    expect_wolfe(wavy, search(wavy, first));
  }
}

TEST(LineSearch, ComesBackFromWhereThereIsNoLoss) {
  const Function with_a_wall = [](double t) {
    if (t >= 1) return std::pair{std::numeric_limits<double>::infinity(), 0.0};
    return std::pair{-std::log(1 - t) - 3 * t, 1 / (1 - t) - 3};
  };
  for (const double first : {1.0, 8.0, 1e4}) expect_wolfe(with_a_wall, search(with_a_wall, first));
  const Function not_a_number = [](double t) {
    if (t > 0.5) return std::pair{std::nan(""), std::nan("")};
    return std::pair{(t - 0.3) * (t - 0.3), 2 * (t - 0.3)};
  };
  expect_wolfe(not_a_number, search(not_a_number, 1));
}

TEST(LineSearch, GoesBySlopesWhereTheDecreaseIsLostInRounding) {
  // A float loss whose decrease along the direction is a thousandth of its last place.
  const Function rounded = [](double t) {
    return std::pair{double(float(1 + 1e-10 * (t - 1) * (t - 1))) + (t > 0 ? 1e-7 : 0), 2e-10 * (t - 1)};
  };
  const Found found = search(rounded, 1);
  EXPECT_EQ(found.verdict, Verdict::kAccept);
  EXPECT_EQ(found.step, 1);
}

TEST(LineSearch, GivesUpWhereNothingDecreases) {
  // The reported slope is wrong.
  const Found found = search(
      [](double t) {
        return std::pair{t == 0 ? 0.0 : 1.0 + t, t == 0 ? -1.0 : 1.0};
      },
      1);
  EXPECT_EQ(found.verdict, Verdict::kFail);
  EXPECT_LE(found.tries, 40);
}

TEST(LineSearch, TakesTheBestWhenSlopesNeverFit) {
  // Decreases everywhere, but the slope stays as steep as at the start: no step meets the Wolfe conditions.
  const Found found = search([](double t) { return std::pair{-t, -1.0}; }, 1);
  EXPECT_EQ(found.verdict, Verdict::kAccept);
  EXPECT_GT(found.step, 1);
}

}  // namespace
}  // namespace distbelief::compute
