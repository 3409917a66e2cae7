#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace distbelief::mesh {

// How lanes should lie on workers of different speed. Moving a lane changes who adds what, never the order in
// which it is added, so the result keeps its bits.
struct Rebalance {
  std::vector<std::int64_t> lanes;  // per worker
  double gain = 0;                  // share of the step's time that it saves
  int slowest = 0;                  // the worker that holds up the others now
  double slowness = 1;              // how much longer its lanes take than the median worker's
};

// From the lanes of each worker now and the seconds that one lane takes there. Each worker keeps at least
// `least`; one that has no lanes rests and gets none. The step takes as long as the worker that is last:
// lanes go one by one to the worker that would be done first with one more, which is the best that whole
// lanes allow. Pure.
Rebalance rebalance_lanes(const std::vector<std::int64_t>& now, const std::vector<double>& seconds_per_lane,
                          std::int64_t least);

}  // namespace distbelief::mesh
