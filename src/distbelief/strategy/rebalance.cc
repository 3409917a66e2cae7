#include "distbelief/strategy/rebalance.h"

#include <algorithm>
#include <numeric>

#include "distbelief/base/error.h"

namespace distbelief::strategy {
namespace {

double step_seconds(const std::vector<std::int64_t>& lanes, const std::vector<double>& seconds_per_lane) {
  double last = 0;
  for (std::size_t i = 0; i < lanes.size(); ++i)
    last = std::max(last, double(lanes[i]) * seconds_per_lane[i]);
  return last;
}

}  // namespace

Rebalance rebalance_lanes(const std::vector<std::int64_t>& now, const std::vector<double>& seconds_per_lane,
                          std::int64_t least) {
  DISTBELIEF_INVARIANT(!now.empty() && now.size() == seconds_per_lane.size());
  const std::int64_t all = std::accumulate(now.begin(), now.end(), std::int64_t{0});
  Rebalance result;
  result.lanes.assign(now.size(), least);
  for (std::int64_t given = least * std::int64_t(now.size()); given < all; ++given) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < now.size(); ++i)
      if (double(result.lanes[i] + 1) * seconds_per_lane[i] <
          double(result.lanes[best] + 1) * seconds_per_lane[best])
        best = i;
    ++result.lanes[best];
  }
  const double before = step_seconds(now, seconds_per_lane);
  if (before > 0) result.gain = 1 - step_seconds(result.lanes, seconds_per_lane) / before;
  const auto slowest = std::max_element(seconds_per_lane.begin(), seconds_per_lane.end());
  result.slowest = int(slowest - seconds_per_lane.begin());
  std::vector<double> sorted = seconds_per_lane;
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[(sorted.size() - 1) / 2];
  result.slowness = median > 0 ? *slowest / median : 1;
  return result;
}

}  // namespace distbelief::strategy
