#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace distbelief::mesh {

// A distribution of lanes over workers of different speed. Moving a lane changes which worker adds, never the
// order of addition, so the result keeps its bits.
struct Rebalance {
  std::vector<std::int64_t> lanes;  // per worker
  double gain = 0;                  // saved fraction of the step's time
  int slowest = 0;                  // the worker that now delays the others
  double slowness = 1;              // its time per lane / the median worker's
};

// Distributes lanes, given each worker's lanes now and its seconds per lane. Each worker keeps at least
// `least`; a worker without lanes rests and gets none. The slowest worker determines the step's time, so
// lanes go one by one to the worker that would finish first with one more, which is optimal for whole lanes.
// Pure.
Rebalance rebalance_lanes(const std::vector<std::int64_t>& now, const std::vector<double>& seconds_per_lane,
                          std::int64_t least);

}  // namespace distbelief::mesh
