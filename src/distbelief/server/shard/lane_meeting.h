#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

namespace distbelief::server {

// Running statistics and notes of a step's lanes, and their mean, which all replicas go on from. Keeps the
// mean of the last two steps, for replicas that come again. Not thread safe.
class LaneMeeting {
 public:
  LaneMeeting(std::int64_t lanes, std::int64_t spare_lanes, std::size_t values)
      : lanes_(lanes),
        spare_lanes_(spare_lanes),
        values_(values) {}

  std::int64_t step() const { return step_; }  // that is being collected
  // Rows of lanes [first, end) of that step, one after another; `empty` ones do not count. true: the step is
  // complete, and its mean is there.
  bool add(std::int64_t first, std::int64_t end, std::span<const std::int32_t> empty,
           std::span<const float> rows);
  // A step that others have completed.
  void install(std::int64_t step, std::vector<float> mean);
  // Of a step that is complete; nothing when it is too long ago.
  const std::vector<float>* mean_of(std::int64_t step) const;
  // Of which step a replica gets the mean that comes too late for this one: of the last where steps do not
  // wait for everyone, to go on from there.
  std::int64_t given_for(std::int64_t step) const { return spare_lanes_ > 0 ? step_ - 1 : step; }

 private:
  std::int64_t lanes_;
  std::int64_t spare_lanes_;
  std::size_t values_;
  std::int64_t step_ = 0;
  std::map<std::int64_t, std::vector<float>> rows_;  // by lane; none: an empty lane
  std::map<std::int64_t, std::vector<float>> means_;
};

}  // namespace distbelief::server
