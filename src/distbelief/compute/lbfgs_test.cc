#include "distbelief/compute/lbfgs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "distbelief/base/error.h"
#include "distbelief/compute/vector_slice.h"

namespace distbelief::compute {
namespace {

using Dense = std::vector<double>;
// Loss and gradient at a point.
using Problem = std::function<double(const std::vector<float>&, std::vector<float>&)>;

double product(const Dense& a, const Dense& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Slices in this process.
class Slices final : public VectorStore {
 public:
  Slices(std::vector<float> start, std::int64_t history, std::size_t slice)
      : point(std::move(start)),
        slice_(slice) {
    for (std::size_t begin = 0; begin < point.size(); begin += slice_)
      slices_.emplace_back(VectorSlice::Options{
          .vectors = lbfgs_vectors(history), .portions = 1, .count = std::min(slice_, point.size() - begin)});
  }
  std::vector<double> run(std::int64_t sequence, std::span<const Operation> operations) override {
    std::vector<std::vector<double>> numbers;
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      slices_[i].require_possible(sequence, operations);
      numbers.push_back(slices_[i].run(sequence, operations, point.data() + i * slice_));
      if (!repeats) continue;
      EXPECT_EQ(slices_[i].run(sequence, operations, point.data() + i * slice_), numbers.back());
    }
    ++commands;
    return over_slices(operations, numbers);
  }
  void evaluate(const Problem& problem) {
    std::vector<float> gradient(point.size());
    const double loss = problem(point, gradient);
    for (std::size_t i = 0; i < slices_.size(); ++i)
      slices_[i].add(
          {.evaluation = slices_[i].evaluation(), .loss = loss, .values = gradient.data() + i * slice_});
  }
  std::vector<float> point;
  bool repeats = false;
  int commands = 0;

 private:
  std::size_t slice_;
  std::vector<VectorSlice> slices_;
};

LbfgsState minimise(Slices& store, const Problem& problem, const LbfgsOptions& options) {
  std::vector<double> numbers;
  for (;;) {
    store.evaluate(problem);
    LbfgsState state = advance(LbfgsState::from(numbers, options), options, store);
    numbers = state.numbers();
    EXPECT_EQ(LbfgsState::from(numbers, options).numbers(), numbers);
    if (state.end != LbfgsState::End::kNot) return state;
  }
}

double rosenbrock(const std::vector<float>& x, std::vector<float>& gradient) {
  double loss = 0;
  std::fill(gradient.begin(), gradient.end(), 0.0F);
  for (std::size_t i = 0; i + 1 < x.size(); i += 2) {
    const double a = 1 - double(x[i]), b = double(x[i + 1]) - double(x[i]) * double(x[i]);
    loss += a * a + 100 * b * b;
    gradient[i] = float(-2 * a - 400 * double(x[i]) * b);
    gradient[i + 1] = float(200 * b);
  }
  return loss;
}

// A badly scaled bowl with its minimum 1 at i / 10.
double bowl(const std::vector<float>& x, std::vector<float>& gradient) {
  double loss = 1;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double scale = 1 + double(i % 50), d = double(x[i]) - 0.1 * double(i % 10);
    loss += 0.5 * scale * d * d;
    gradient[i] = float(scale * d);
  }
  return loss;
}

TEST(Lbfgs, TheDirectionIsThatOfTheTwoLoopRecursion) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  const std::size_t n = 30, places = 4;
  for (const std::vector<std::int64_t>& order :
       {std::vector<std::int64_t>{}, {2}, {0, 1}, {3, 0, 1}, {2, 3, 0, 1}}) {
    std::vector<Dense> basis(2 * places + 1, Dense(n));
    for (Dense& vector : basis)
      for (double& value : vector) value = normal(random);
    for (std::size_t place = 0; place < places; ++place)  // curvature is positive
      for (std::size_t i = 0; i < n; ++i)
        basis[2 * place + 1][i] = 0.3 * basis[2 * place + 1][i] + 2 * basis[2 * place][i];
    std::vector<double> dots;
    for (const Dense& a : basis)
      for (const Dense& b : basis) dots.push_back(product(a, b));
    const std::vector<double> by = direction_coefficients(order, places, dots);
    Dense found(n);
    for (std::size_t v = 0; v < basis.size(); ++v)
      for (std::size_t i = 0; i < n; ++i) found[i] += by[v] * basis[v][i];

    Dense q = basis.back();  // Nocedal and Wright, algorithm 7.4
    std::vector<double> alphas(places);
    for (std::size_t at = order.size(); at-- > 0;) {
      const auto place = std::size_t(order[at]);
      const Dense &s = basis[2 * place], &y = basis[2 * place + 1];
      const double alpha = alphas[place] = product(s, q) / product(s, y);
      for (std::size_t i = 0; i < n; ++i) q[i] -= alpha * y[i];
    }
    if (!order.empty()) {
      const Dense &s = basis[std::size_t(2 * order.back())], &y = basis[std::size_t(2 * order.back() + 1)];
      for (double& value : q) value *= product(s, y) / product(y, y);
    }
    for (const std::int64_t place : order) {
      const Dense &s = basis[std::size_t(2 * place)], &y = basis[std::size_t(2 * place + 1)];
      const double beta = product(y, q) / product(s, y);
      for (std::size_t i = 0; i < n; ++i) q[i] += (alphas[std::size_t(place)] - beta) * s[i];
    }
    for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(found[i], -q[i], 1e-9 * (1 + std::fabs(q[i])));
  }
}

TEST(Lbfgs, FindsTheLeastOfAValleyAndOfABowl) {
  const LbfgsOptions options{.history = 6, .tolerance = 1e-4, .evaluations = 300};
  Slices valley(std::vector<float>(10, -1.2F), options.history, 4);
  const LbfgsState in_valley = minimise(valley, rosenbrock, options);
  EXPECT_EQ(in_valley.end, LbfgsState::End::kConverged);
  for (const float value : valley.point) EXPECT_NEAR(value, 1, 1e-3);
  EXPECT_LT(in_valley.evaluations, 80);
  EXPECT_LE(valley.commands, 4 * in_valley.evaluations);

  Slices wide(std::vector<float>(5000, 3.0F), options.history, 2048);
  wide.repeats = true;
  const LbfgsState in_bowl = minimise(wide, bowl, {.history = 6, .tolerance = 1e-3, .evaluations = 300});
  EXPECT_EQ(in_bowl.end, LbfgsState::End::kConverged);
  EXPECT_NEAR(in_bowl.loss, 1, 1e-6);
  EXPECT_LT(in_bowl.evaluations, 60);
}

TEST(Lbfgs, WeightDecayIsPartOfTheLoss) {
  const LbfgsOptions options{.history = 5, .weight_decay = 0.5, .tolerance = 1e-4, .evaluations = 200};
  Slices store(std::vector<float>(50, 3.0F), options.history, 64);
  const LbfgsState state = minimise(store, bowl, options);
  EXPECT_EQ(state.end, LbfgsState::End::kConverged);
  double loss = 1;
  for (std::size_t i = 0; i < 50; ++i) {
    const double scale = 1 + double(i), aim = 0.1 * double(i % 10), best = scale * aim / (scale + 0.5);
    EXPECT_NEAR(store.point[i], best, 1e-4);
    loss += 0.5 * scale * (best - aim) * (best - aim) + 0.25 * best * best;
  }
  EXPECT_NEAR(state.loss, loss, 1e-6);
}

TEST(Lbfgs, WhoeverBeginsAgainComesToTheSameState) {
  const LbfgsOptions options{.history = 3, .tolerance = 1e-4, .evaluations = 30};
  Slices store(std::vector<float>(10, -1.2F), options.history, 4);
  std::vector<double> numbers;
  for (int evaluation = 0; evaluation < 20; ++evaluation) {
    store.evaluate(rosenbrock);
    const LbfgsState before = LbfgsState::from(numbers, options);
    const std::vector<double> once = advance(before, options, store).numbers();
    const std::vector<float> point = store.point;
    EXPECT_EQ(advance(before, options, store).numbers(), once);
    EXPECT_EQ(store.point, point);
    numbers = once;
  }
}

TEST(Lbfgs, EndsWithTheBestPointWhenEvaluationsAreSpent) {
  const LbfgsOptions options{.history = 3, .tolerance = 0, .evaluations = 7};
  Slices store(std::vector<float>(10, -1.2F), options.history, 16);
  const LbfgsState state = minimise(store, rosenbrock, options);
  EXPECT_EQ(state.end, LbfgsState::End::kEvaluations);
  EXPECT_EQ(state.evaluations, 7);
  std::vector<float> gradient(10);
  EXPECT_NEAR(rosenbrock(store.point, gradient), state.loss, 1e-9 * state.loss);
}

TEST(Lbfgs, ComesBackFromPointsWithoutALoss) {
  const Problem walled = [](const std::vector<float>& x, std::vector<float>& gradient) {
    const double loss = bowl(x, gradient);
    const bool is_beyond = std::fabs(x[0]) > 3.5F;
    if (is_beyond) std::fill(gradient.begin(), gradient.end(), 0.0F);
    return is_beyond ? std::numeric_limits<double>::infinity() : loss;
  };
  const LbfgsOptions options{.history = 5, .tolerance = 1e-3, .evaluations = 200};
  Slices store(std::vector<float>(20, 3.4F), options.history, 64);
  EXPECT_EQ(minimise(store, walled, options).end, LbfgsState::End::kConverged);
}

TEST(Lbfgs, RefusesNumbersThatAreNoState) {
  EXPECT_THROW(LbfgsState::from(std::vector<double>{1, 2, 3}, {.history = 2}), Error);
  EXPECT_THROW(LbfgsState::from(LbfgsState{}.numbers(), {.history = 2}), Error) << "no dots";
  LbfgsState state;
  state.dots.assign(25, 0.0);
  EXPECT_NO_THROW(LbfgsState::from(state.numbers(), {.history = 2}));
  state.loss = std::numeric_limits<double>::infinity();
  EXPECT_THROW(LbfgsState::from(state.numbers(), {.history = 2}), Error);
  state.loss = 0;
  state.pairs = 3;
  EXPECT_THROW(LbfgsState::from(state.numbers(), {.history = 2}), Error);
}

}  // namespace
}  // namespace distbelief::compute
