#include "distbelief/tasks/election.h"

#include <algorithm>

#include "distbelief/base/error.h"

namespace distbelief::tasks {

std::int64_t elect(std::span<const std::int64_t> votes, std::span<const double> chances) {
  DISTBELIEF_INVARIANT(!votes.empty() && !chances.empty());
  std::int64_t elected = 0;
  std::ptrdiff_t most = -1;
  for (std::size_t action = 0; action < chances.size(); ++action) {
    const std::ptrdiff_t count = std::count(votes.begin(), votes.end(), std::int64_t(action));
    if (count < most || (count == most && chances[action] <= chances[std::size_t(elected)])) continue;
    elected = std::int64_t(action);
    most = count;
  }
  return elected;
}

}  // namespace distbelief::tasks
