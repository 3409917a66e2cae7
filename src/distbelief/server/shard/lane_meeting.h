#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

namespace distbelief::server {

// Collects the running statistics and notes of a step's lanes; all replicas continue from their mean. Keeps
// the means of the last two steps, for restarted replicas. Not thread safe.
class LaneMeeting {
 public:
  LaneMeeting(std::int64_t lanes, std::int64_t spare_lanes, std::size_t values)
      : lanes_(lanes),
        spare_lanes_(spare_lanes),
        values_(values) {}

  std::int64_t step() const { return step_; }  // being collected
  // Adds rows of lanes [first, end) of that step, one after another; lanes in `empty` do not count. Returns
  // true when the step is complete and its mean is there.
  bool add(std::int64_t first, std::int64_t end, std::span<const std::int32_t> empty,
           std::span<const float> rows);
  // Sets the mean of a step that another server completed.
  void install(std::int64_t step, std::vector<float> mean);
  // The mean of a complete step; null when the step is too old.
  const std::vector<float>* mean_of(std::int64_t step) const;
  // The step whose mean a late replica gets: the last one where steps do not wait for every lane, so that it
  // continues from there.
  std::int64_t given_for(std::int64_t step) const { return spare_lanes_ > 0 ? step_ - 1 : step; }

 private:
  std::int64_t lanes_;
  std::int64_t spare_lanes_;
  std::size_t values_;
  std::int64_t step_ = 0;
  std::map<std::int64_t, std::vector<float>> rows_;  // by lane; empty vector: an empty lane
  std::map<std::int64_t, std::vector<float>> means_;
};

}  // namespace distbelief::server
