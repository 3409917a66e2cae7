#include "distbelief/compute/lbfgs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "distbelief/base/error.h"

namespace distbelief::compute {
namespace {

using Does = Operation::Kind;
using Verdict = LineSearch::Verdict;

constexpr std::size_t kScalars = 9;        // in a state, before the search and the dots
constexpr double kWholeStep = 1;           // along a direction computed from pairs
constexpr double kLeastCurvature = 1e-10;  // least for a pair to keep, relative to its gradients' difference

Operation copy(std::int32_t target, std::int32_t source) { return {Does::kCopy, target, source, 0}; }
Operation scaled(std::int32_t target, double factor) { return {Does::kScale, target, target, factor}; }
Operation axpy(std::int32_t target, double factor, std::int32_t source) {
  return {Does::kAxpy, target, source, factor};
}
Operation dot(std::int32_t left, std::int32_t right) { return {Does::kDot, left, right, 0}; }

// One call of advance(): the state in progress and its commands.
class Advance {
 public:
  Advance(LbfgsState state, const LbfgsOptions& options, VectorStore& store)
      : state_(std::move(state)),
        options_(options),
        store_(store) {}

  LbfgsState run();

 private:
  std::vector<double> command(const std::vector<Operation>& operations) {
    return store_.run(state_.sequence++, operations);
  }
  std::size_t width() const { return std::size_t(2 * options_.history + 1); }
  double& dot_at(std::size_t row, std::size_t column) { return state_.dots[row * width() + column]; }
  // Row of a pair's point and gradient differences among the dots, and the vector of a row.
  static std::size_t points(std::int64_t place) { return std::size_t(2 * place); }
  static std::size_t gradients(std::int64_t place) { return std::size_t(2 * place + 1); }
  static std::int32_t vector_of(std::size_t row) { return kFirstPair + std::int32_t(row); }
  std::vector<std::int64_t> order() const;

  void collect();
  void accept_first();
  void accept();
  void take_pair(std::int64_t place);
  void choose_direction();
  double go_downhill();
  void try_step(double step);
  void stop(LbfgsState::End end);

  LbfgsState state_;
  const LbfgsOptions& options_;
  VectorStore& store_;
  double new_loss_ = 0, new_slope_ = 0, new_norm_ = 0;  // at the point
};

// Places of the pairs in use, oldest first.
std::vector<std::int64_t> Advance::order() const {
  std::vector<std::int64_t> places;
  for (std::int64_t age = state_.pairs - 1; age >= 0; --age)
    places.push_back((state_.newest - age + options_.history) % options_.history);
  return places;
}

void Advance::collect() {
  std::vector<Operation> operations{{Does::kCollect, kNewGradient, kNewGradient, 0}};
  if (options_.weight_decay > 0) {
    operations.push_back(axpy(kNewGradient, options_.weight_decay, kPoint));
    operations.push_back(dot(kPoint, kPoint));
  }
  operations.push_back(dot(kNewGradient, kDirection));
  operations.push_back(dot(kNewGradient, kNewGradient));
  const std::vector<double> numbers = command(operations);
  new_loss_ = numbers[0];
  if (options_.weight_decay > 0) new_loss_ += 0.5 * options_.weight_decay * numbers[1];
  new_slope_ = numbers[numbers.size() - 2];
  new_norm_ = std::sqrt(numbers.back());
  ++state_.evaluations;
}

void Advance::accept_first() {
  if (!std::isfinite(new_loss_) || !std::isfinite(new_norm_))
    throw Error(ErrorCode::kBadInput,
                fmt::format("the loss at the first point is {} and its gradient's norm {}: L-BFGS has no "
                            "place to begin; begin from other weights (train.init, train.seed)",
                            new_loss_, new_norm_));
  state_.dots.assign(width() * width(), 0.0);
  command({copy(kBase, kPoint), copy(kGradient, kNewGradient)});
}

// Stores the differences of the point and its gradient from the old base in `place`, then makes the point the
// base.
void Advance::take_pair(std::int64_t place) {
  const std::int32_t s = vector_of(points(place)), y = vector_of(gradients(place));
  std::vector<Operation> operations{copy(s, kPoint),       axpy(s, -1, kBase),
                                    copy(y, kNewGradient), axpy(y, -1, kGradient),
                                    copy(kBase, kPoint),   copy(kGradient, kNewGradient)};
  std::vector<std::pair<std::size_t, std::size_t>> wanted;
  std::vector<std::int64_t> places = order();
  std::erase(places, place);
  places.push_back(place);
  const std::size_t last = width() - 1;  // the gradient's row
  for (const std::int64_t other : places)
    for (const std::size_t row : {points(other), gradients(other)}) {
      wanted.insert(wanted.end(), {{points(place), row}, {last, row}});
      if (row != points(place)) wanted.emplace_back(gradients(place), row);
    }
  const auto vector_at = [&](std::size_t row) { return row == last ? kGradient : vector_of(row); };
  for (const auto& [row, column] : wanted) operations.push_back(dot(vector_at(row), vector_at(column)));
  const std::vector<double> numbers = command(operations);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    dot_at(wanted[i].first, wanted[i].second) = dot_at(wanted[i].second, wanted[i].first) = numbers[i];
}

void Advance::accept() {
  const std::int64_t place = (state_.newest + 1) % options_.history;
  // Drops the oldest pair before it is known whether the new one is kept.
  state_.pairs = std::min(state_.pairs, options_.history - 1);
  take_pair(place);
  const double sy = dot_at(points(place), gradients(place));
  const double yy = dot_at(gradients(place), gradients(place));
  if (std::isfinite(sy) && sy > kLeastCurvature * yy) {
    state_.newest = place;
    ++state_.pairs;
  }
  ++state_.iterations;
}

// Returns the slope along the direction.
double Advance::go_downhill() {
  state_.pairs = 0;
  return command({copy(kDirection, kGradient), scaled(kDirection, -1), dot(kGradient, kDirection)})[0];
}

void Advance::choose_direction() {
  double slope = 0;
  if (state_.pairs > 0) {
    const std::size_t last = width() - 1;
    dot_at(last, last) = state_.gradient_norm * state_.gradient_norm;
    const std::vector<double> by =
        direction_coefficients(order(), std::size_t(options_.history), state_.dots);
    std::vector<Operation> operations{copy(kDirection, kGradient), scaled(kDirection, by[last])};
    for (const std::int64_t place : order())
      for (const std::size_t row : {points(place), gradients(place)})
        operations.push_back(axpy(kDirection, by[row], vector_of(row)));
    operations.push_back(dot(kGradient, kDirection));
    operations.insert(operations.end(), {copy(kPoint, kBase), axpy(kPoint, kWholeStep, kDirection)});
    slope = command(operations)[0];
  }
  state_.step = kWholeStep;
  const bool is_downhill = std::isfinite(slope) && slope < 0;
  if (!is_downhill) slope = go_downhill();
  state_.search = LineSearch(state_.loss, slope);
  if (!is_downhill) try_step(std::min(1.0, 1.0 / state_.gradient_norm));
}

void Advance::try_step(double step) {
  state_.step = step;
  command({copy(kPoint, kBase), axpy(kPoint, step, kDirection)});
}

void Advance::stop(LbfgsState::End end) {
  state_.end = end;
  command({copy(kPoint, kBase)});
}

LbfgsState Advance::run() {
  using End = LbfgsState::End;
  collect();
  const bool is_first = state_.evaluations == 1;
  LineSearch::Next next{.verdict = Verdict::kAccept};
  if (!is_first) next = state_.search.after(state_.step, new_loss_, new_slope_);
  if (next.verdict == Verdict::kAccept) {
    if (is_first)
      accept_first();
    else
      accept();
    state_.loss = new_loss_;
    state_.gradient_norm = new_norm_;
  }
  const bool is_spent = state_.evaluations >= options_.evaluations;
  if (state_.gradient_norm <= options_.tolerance)
    stop(End::kConverged);
  else if (is_spent || (next.verdict == Verdict::kFail && state_.pairs == 0))
    stop(is_spent ? End::kEvaluations : End::kNoProgress);
  else if (next.verdict == Verdict::kTry)
    try_step(next.step);
  else {
    if (next.verdict == Verdict::kFail) state_.pairs = 0;  // retry straight downhill
    choose_direction();
  }
  return std::move(state_);
}

}  // namespace

std::vector<double> direction_coefficients(std::span<const std::int64_t> order, std::size_t places,
                                           std::span<const double> dots) {
  const std::size_t width = 2 * places + 1, last = width - 1;
  std::vector<double> by(width);
  by[last] = -1;
  const auto product = [&](std::size_t row) {
    double sum = 0;
    for (std::size_t i = 0; i < width; ++i) sum += by[i] == 0 ? 0 : by[i] * dots[row * width + i];
    return sum;
  };
  std::vector<double> alphas(places);
  for (std::size_t i = order.size(); i-- > 0;) {
    const auto place = std::size_t(order[i]);
    const std::size_t s = 2 * place, y = s + 1;
    const double alpha = product(s) / dots[s * width + y];
    alphas[place] = alpha;
    by[y] -= alpha;
  }
  if (!order.empty()) {
    const std::size_t s = std::size_t(2 * order.back()), y = s + 1;
    for (double& one : by) one *= dots[s * width + y] / dots[y * width + y];
  }
  for (const std::int64_t place : order) {
    const std::size_t s = std::size_t(2 * place), y = s + 1;
    by[s] += alphas[std::size_t(place)] - product(y) / dots[s * width + y];
  }
  return by;
}

std::string describe(LbfgsState::End end) {
  switch (end) {
    case LbfgsState::End::kNot: return "not ended";
    case LbfgsState::End::kConverged: return "converged";
    case LbfgsState::End::kNoProgress: return "no step makes the loss smaller";
    case LbfgsState::End::kEvaluations: return "as many evaluations as train.epochs";
  }
  return {};
}

std::vector<double> LbfgsState::numbers() const {
  std::vector<double> all{
      double(int(end)), double(sequence), double(evaluations), double(iterations), loss, gradient_norm, step,
      double(pairs),    double(newest)};
  const std::vector<double> of_search = search.numbers();
  all.insert(all.end(), of_search.begin(), of_search.end());
  const std::size_t width = std::size_t(std::lround(std::sqrt(double(dots.size()))));
  for (std::size_t row = 0; row < width; ++row)
    for (std::size_t column = 0; column <= row; ++column) all.push_back(dots[row * width + column]);
  return all;
}

LbfgsState LbfgsState::from(std::span<const double> numbers, const LbfgsOptions& options) {
  LbfgsState state;
  if (numbers.empty()) return state;
  const std::size_t width = std::size_t(2 * options.history + 1), triangle = width * (width + 1) / 2;
  if (numbers.size() != kScalars + LineSearch::kNumbers + triangle)
    throw Error(ErrorCode::kBadInput, fmt::format("{} numbers are no state of L-BFGS with a history of {}",
                                                  numbers.size(), options.history));
  const auto is_plain = [](double number) { return std::isfinite(number) && std::fabs(number) < 1e15; };
  const bool fits = std::ranges::all_of(numbers.first(kScalars), is_plain) && numbers[0] >= 0 &&
                    numbers[0] <= double(int(End::kEvaluations)) && numbers[7] >= 0 &&
                    numbers[7] <= double(options.history) && numbers[8] >= -1 &&
                    numbers[8] < double(options.history) &&
                    is_plain(numbers[kScalars + LineSearch::kNumbers - 1]);
  if (!fits) throw Error(ErrorCode::kBadInput, "these numbers are no state of L-BFGS");
  state.end = End(int(numbers[0]));
  state.sequence = std::int64_t(numbers[1]);
  state.evaluations = std::int64_t(numbers[2]);
  state.iterations = std::int64_t(numbers[3]);
  state.loss = numbers[4];
  state.gradient_norm = numbers[5];
  state.step = numbers[6];
  state.pairs = std::int64_t(numbers[7]);
  state.newest = std::int64_t(numbers[8]);
  state.search = LineSearch::from(numbers.subspan(kScalars, LineSearch::kNumbers));
  state.dots.resize(width * width);
  std::size_t at = kScalars + LineSearch::kNumbers;
  for (std::size_t row = 0; row < width; ++row)
    for (std::size_t column = 0; column <= row; ++column)
      state.dots[row * width + column] = state.dots[column * width + row] = numbers[at++];
  return state;
}

LbfgsState advance(const LbfgsState& state, const LbfgsOptions& options, VectorStore& store) {
  return Advance(state, options, store).run();
}

}  // namespace distbelief::compute
