#include "distbelief/server/slice.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace distbelief::server {

bool are_finite(std::span<const float> values) {
  // Without a branch per element, so that the compiler makes vectors of it.
  int bad = 0;
  for (const float value : values) bad |= !(std::fabs(value) <= std::numeric_limits<float>::max());
  return bad == 0;
}

Slice::Slice(Options options)
    : options_(std::move(options)),
      values_(options_.span.size()),
      states_(options_.rule->state_names().size(), std::vector<float>(options_.span.size())),
      counts_(options_.segments.size()) {
  if (options_.vectors) vectors_.emplace(*options_.vectors);
}

// Zheng et al., Asynchronous SGD with Delay Compensation: what the gradient would be at the present values,
// by a diagonal guess of its slope.
const float* Slice::compensated(const Gradient& gradient) {
  const auto found = values_of_.find(gradient.replica);
  if (options_.compensation == 0 || gradient.is_final || found == values_of_.end()) return gradient.values;
  scratch_.resize(values_.size());
  const float factor = float(options_.compensation);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const float g = gradient.values[i];
    scratch_[i] = g + factor * g * g * (values_[i] - found->second[i]);
  }
  return scratch_.data();
}

void Slice::note_values_of(std::int32_t replica) {
  if (options_.compensation != 0) values_of_[replica] = values_;
}

Slice::Applied Slice::apply(const Gradient& gradient, float* values) {
  const std::lock_guard lock(mutex_);
  Applied applied{.lr = gradient.lr, .direction = gradient.values};
  const bool is_new = !tickets_.contains(gradient.ticket);
  if (is_new) {
    const std::int64_t delay = version_ - gradient.base;
    const double lr = options_.staleness_aware && !gradient.is_final
                          ? gradient.lr / double(std::max<std::int64_t>(1, delay))
                          : gradient.lr;
    // First: what cannot be logged is not done.
    if (options_.log)
      options_.log->append({.slice = options_.number,
                            .version = version_ + 1,
                            .ticket = gradient.ticket,
                            .replica = gradient.replica,
                            .base = gradient.base,
                            .lr = lr});
    tickets_.insert(gradient.ticket);
    const float* const direction = compensated(gradient);
    applied.lr = lr;
    applied.direction = direction;
    if (options_.keeps_previous) previous_ = values_;
    for (std::size_t i = 0; i < options_.segments.size(); ++i) {
      const compute::Segment& segment = options_.segments[i];
      if (std::ranges::find(gradient.untouched, segment.parameter) != gradient.untouched.end()) continue;
      const std::size_t offset = segment.span.begin - options_.span.begin;
      compute::UpdateRange range{.parameters = values_.data() + offset,
                                 .gradients = direction + offset,
                                 .count = segment.span.size(),
                                 .lr = lr,
                                 .step = ++counts_[i]};
      for (std::size_t s = 0; s < states_.size(); ++s) range.states[s] = states_[s].data() + offset;
      options_.rule->update(range);
    }
    ++version_;
  }
  if (values) {
    std::memcpy(values, values_.data(), values_.size() * sizeof(float));
    note_values_of(gradient.replica);
  }
  applied.repeated = !is_new;
  applied.version = version_;
  return applied;
}

std::int64_t Slice::read(std::int32_t replica, float* values) {
  const std::lock_guard lock(mutex_);
  std::memcpy(values, values_.data(), values_.size() * sizeof(float));
  note_values_of(replica);
  return version_;
}

bool Slice::read_version(std::int64_t version, float* values) {
  const std::lock_guard lock(mutex_);
  const bool is_previous = version + 1 == version_ && !previous_.empty();
  if (version != version_ && !is_previous) return false;
  const std::vector<float>& from = is_previous ? previous_ : values_;
  std::memcpy(values, from.data(), from.size() * sizeof(float));
  return true;
}

bool Slice::has(std::int64_t ticket) {
  const std::lock_guard lock(mutex_);
  return tickets_.contains(ticket);
}

bool Slice::has_room_for(std::int64_t ticket) {
  const std::lock_guard lock(mutex_);
  return tickets_.has_room_for(ticket);
}

std::int64_t Slice::version() {
  const std::lock_guard lock(mutex_);
  return version_;
}

void Slice::forget(std::int32_t replica) {
  const std::lock_guard lock(mutex_);
  values_of_.erase(replica);
}

Slice::State Slice::state() {
  const std::lock_guard lock(mutex_);
  State state{.version = version_,
              .filled = filled_,
              .counts = counts_,
              .tickets_below = tickets_.below(),
              .tickets_above = tickets_.ranges(),
              .arrays = {values_}};
  state.arrays.insert(state.arrays.end(), states_.begin(), states_.end());
  if (vectors_) add_vectors(state);
  return state;
}

void Slice::install(State state) {
  const std::lock_guard lock(mutex_);
  if (vectors_) take_vectors(state);
  version_ = state.version;
  filled_ = state.filled;
  counts_ = std::move(state.counts);
  tickets_.assign(state.tickets_below, state.tickets_above);
  values_ = std::move(state.arrays[0]);
  for (std::size_t i = 0; i < states_.size(); ++i) states_[i] = std::move(state.arrays[i + 1]);
  previous_.clear();
  values_of_.clear();
}

void Slice::forget() {
  const std::lock_guard lock(mutex_);
  version_ = 0;
  filled_ = false;
  std::ranges::fill(counts_, 0);
  tickets_ = {};
  values_of_.clear();
  for (std::vector<float>* array : {&values_, &previous_, &scratch_}) *array = {};
  for (std::vector<float>& state : states_) state = {};
  if (vectors_) vectors_.emplace(*options_.vectors);
}

bool Slice::fill(const float* values) {
  const std::lock_guard lock(mutex_);
  if (filled_) return false;
  values_.assign(values, values + size());
  for (std::vector<float>& state : states_) state.assign(size(), 0.0F);
  filled_ = true;
  return true;
}

bool Slice::is_filled() {
  const std::lock_guard lock(mutex_);
  return filled_;
}

}  // namespace distbelief::server
