#include "distbelief/train/served_sharing.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "distbelief/train/team.h"

namespace distbelief::train {

ServedSharing::ServedSharing(const Options& options) : options_(options), mean_(options.lane_values) {}

void ServedSharing::begin_step(const strategy::StepPlan& plan) {
  plan_ = plan;
  counts_ = inner().update_counts();
  inner().begin_step(plan);
}

void ServedSharing::end_step() {
  inner().end_step();
  const std::span<const float> own = inner().mean_buffers();
  std::copy(own.begin(), own.end(), mean_.begin());
  const bool has_link = options_.world->rank() == 0;
  if (has_link) exchange();
  if (has_link && options_.link->is_synchronous()) meet();
  if (options_.world->size() == 1) return;
  options_.group->meet_patiently();  // the parameters are there, however long the servers took
  options_.world->communicator().broadcast(comm::view(mean_.data(), mean_.size()), 0);
}

// What was collected for a parameter in an earlier step must not count again.
std::vector<std::int32_t> ServedSharing::forget_untouched() {
  std::vector<std::int32_t> untouched;
  const std::vector<compute::Entry>& entries = options_.group->layout().entries();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (inner().update_counts()[i] != counts_[i]) continue;
    untouched.push_back(std::int32_t(i));
    std::fill_n(options_.group->state(0) + entries[i].offset, entries[i].count, 0.0F);
  }
  return untouched;
}

double ServedSharing::loss() const {
  LaneNotes notes;
  std::memcpy(static_cast<void*>(&notes), mean_.data() + (mean_.size() - kNoteFloats), sizeof(notes));
  return outcome_of(notes, size_of(plan_).filled_lanes).loss;
}

void ServedSharing::exchange() {
  const TreeNode lanes = options_.link->lanes();
  const auto samples = plan_.lane_samples;
  const auto first = samples.begin();
  const std::size_t size = options_.group->layout().size();
  options_.link->exchange(
      {.step = plan_.step,
       .lr = plan_.lr,
       .samples = std::accumulate(first + lanes.begin, first + lanes.end, std::int64_t{0}),
       .step_samples = std::accumulate(first, samples.end(), std::int64_t{0}),
       .untouched = forget_untouched(),
       .loss = loss(),
       .lane_values = mean_},
      {options_.group->state(0), size}, {options_.group->parameters(), size});
}

void ServedSharing::meet() {
  const TreeNode lanes = options_.link->lanes();
  std::vector<float> rows;
  std::vector<std::int32_t> empty;
  for (std::int64_t lane = lanes.begin; lane < lanes.end; ++lane) {
    const std::span<const float> row = inner().lane_values(lane);
    rows.insert(rows.end(), row.begin(), row.end());
    if (plan_.lane_samples[std::size_t(lane)] == 0) empty.push_back(std::int32_t(lane));
  }
  options_.link->meet(plan_.step, rows, empty, mean_);
}

}  // namespace distbelief::train
