#include "distbelief/mesh/rebalance.h"

#include <algorithm>
#include <numeric>

#include "distbelief/base/error.h"

namespace distbelief::mesh {
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
  const std::int64_t all = std::accumulate(now.begin(), now.end(), std::int64_t{0});
  DISTBELIEF_INVARIANT(all > 0 && now.size() == seconds_per_lane.size());
  Rebalance result;
  std::vector<std::size_t> working;
  std::vector<double> sorted;
  result.lanes.assign(now.size(), 0);
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i] == 0) continue;
    working.push_back(i);
    sorted.push_back(seconds_per_lane[i]);
    result.lanes[i] = least;
  }
  for (std::int64_t given = least * std::int64_t(working.size()); given < all; ++given) {
    std::size_t best = working[0];
    for (const std::size_t i : working)
      if (double(result.lanes[i] + 1) * seconds_per_lane[i] <
          double(result.lanes[best] + 1) * seconds_per_lane[best])
        best = i;
    ++result.lanes[best];
  }
  const double before = step_seconds(now, seconds_per_lane);
  if (before > 0) result.gain = 1 - step_seconds(result.lanes, seconds_per_lane) / before;
  result.slowest = int(*std::max_element(working.begin(), working.end(), [&](std::size_t a, std::size_t b) {
    return seconds_per_lane[a] < seconds_per_lane[b];
  }));
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[(sorted.size() - 1) / 2];
  result.slowness = median > 0 ? sorted.back() / median : 1;
  return result;
}

}  // namespace distbelief::mesh
