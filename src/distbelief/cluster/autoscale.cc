#include "distbelief/cluster/autoscale.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "distbelief/base/error.h"

namespace distbelief::cluster {
namespace {

constexpr double kPays = 0.5;
constexpr double kDoesNotPay = 0.3;
constexpr double kWarmUp = 0.3;  // share of the window that precedes it
constexpr std::int64_t kFewestSteps = 10;

// The gain of each added worker, relative to a worker of the smaller number.
double gain(const Speeds& speeds, int fewer, int more) {
  const double before = speeds.at(fewer);
  return before > 0 ? (speeds.at(more) - before) / before * fewer / (more - fewer) : 1;
}

std::string compare(const Speeds& speeds, int fewer, int more) {
  return fmt::format("{} workers take {:.1f} steps/s, {} take {:.1f}: each added one brings {:.0f} % of one",
                     fewer, speeds.at(fewer), more, speeds.at(more), 100 * gain(speeds, fewer, more));
}

}  // namespace

std::vector<int> worker_counts(int lanes, int threads, int min, int max) {
  std::vector<int> counts;
  int most_lanes = lanes + 1;  // largest number of lanes on a thread
  for (int workers = min; workers <= max && workers * threads <= lanes; ++workers) {
    const int carriers = workers * threads;
    const int here = (lanes + carriers - 1) / carriers;
    if (here < most_lanes) counts.push_back(workers);
    most_lanes = std::min(most_lanes, here);
  }
  return counts;
}

AutoscaleDecision decide_workers(const std::vector<int>& counts, int now, const Speeds& speeds) {
  DISTBELIEF_INVARIANT(speeds.contains(now));
  const auto above = std::upper_bound(counts.begin(), counts.end(), now);
  const auto at_least = std::lower_bound(counts.begin(), counts.end(), now);
  const int up = above == counts.end() ? 0 : *above;                       // 0: no larger number
  const int down = at_least == counts.begin() ? 0 : *std::prev(at_least);  // 0: no smaller number
  const bool knows_up = speeds.contains(up), knows_down = speeds.contains(down);
  if (knows_up && gain(speeds, now, up) >= kPays) return {up, false, compare(speeds, now, up)};
  if (knows_down && gain(speeds, down, now) < kDoesNotPay) return {down, false, compare(speeds, down, now)};
  const bool last_paid = !knows_down || gain(speeds, down, now) >= kPays;
  if (up > 0 && !knows_up && last_paid)
    return {up, false, fmt::format("{} workers take {:.1f} steps/s; trying {}", now, speeds.at(now), up)};
  if (down > 0 && !knows_down)
    return {down, false,
            fmt::format("{} workers take {:.1f} steps/s; trying whether {} do", now, speeds.at(now), down)};
  return {now, true, fmt::format("{} workers it is, with {:.1f} steps/s", now, speeds.at(now))};
}

std::optional<double> SpeedGauge::note(std::int64_t step, Clock::time_point now) {
  if (step < 0) return std::nullopt;
  if (!began_) {
    began_ = Mark{now, step};
    warm_ = false;
    return std::nullopt;
  }
  const std::chrono::duration<double> passed = now - began_->time;
  const std::int64_t steps = step - began_->step;
  if (steps < kFewestSteps || passed < (warm_ ? window_ : window_ * kWarmUp)) return std::nullopt;
  const bool full = warm_;
  began_ = full ? std::nullopt : std::optional(Mark{now, step});
  warm_ = !full;
  return full ? std::optional(double(steps) / passed.count()) : std::nullopt;
}

}  // namespace distbelief::cluster
