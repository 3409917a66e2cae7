#include "distbelief/server/shard/lane_meeting.h"

#include <algorithm>

namespace distbelief::server {

bool LaneMeeting::add(std::int64_t first, std::int64_t end, std::span<const std::int32_t> empty,
                      std::span<const float> rows) {
  for (std::int64_t lane = first; lane < end; ++lane) {
    const float* const row = rows.data() + std::size_t(lane - first) * values_;
    const bool is_empty = std::ranges::find(empty, lane) != empty.end();
    rows_[lane] = is_empty ? std::vector<float>() : std::vector<float>(row, row + values_);
  }
  if (std::int64_t(rows_.size()) < lanes_ - spare_lanes_) return false;
  // In the order of AllreduceSharing, for the same bits.
  std::vector<double> sums(values_);
  int counted = 0;
  for (const auto& [lane, row] : rows_) {
    if (row.empty()) continue;
    ++counted;
    for (std::size_t i = 0; i < values_; ++i) sums[i] += double(row[i]);
  }
  std::vector<float> mean(values_);
  for (std::size_t i = 0; counted > 0 && i < values_; ++i) mean[i] = float(sums[i] / counted);
  install(step_, std::move(mean));
  return true;
}

void LaneMeeting::install(std::int64_t step, std::vector<float> mean) {
  if (step < step_) return;
  rows_.clear();
  step_ = step + 1;
  means_[step] = std::move(mean);
  while (means_.size() > 2) means_.erase(means_.begin());
}

const std::vector<float>* LaneMeeting::mean_of(std::int64_t step) const {
  const auto found = means_.find(step);
  return found == means_.end() ? nullptr : &found->second;
}

}  // namespace distbelief::server
