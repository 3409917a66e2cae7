#include "distbelief/server/shard/slice.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "distbelief/base/error.h"

namespace distbelief::server {

namespace {

// Without a branch per element, so that the compiler vectorizes the loop.
bool are_within(std::span<const float> values, float most) {
  int bad = 0;
  for (const float value : values) bad |= !(std::fabs(value) <= most);
  return bad == 0;
}

}  // namespace

bool are_finite(std::span<const float> values) {
  return are_within(values, std::numeric_limits<float>::max());
}

bool are_moderate(std::span<const float> values) { return are_within(values, kMostMagnitude); }

// Memory is allocated with the first values or a state: opening a job takes no memory from others.
Slice::Slice(Options options)
    : options_(std::move(options)),
      states_(options_.rule->state_names().size()),
      counts_(options_.segments.size()) {}

void Slice::require_values() const {
  if (!filled_)
    throw Error(ErrorCode::kUnavailable, "slice " + std::to_string(options_.number) + " has no values yet");
}

// Estimates the gradient at the present values by a diagonal approximation of its slope (Zheng et al.,
// Asynchronous SGD with Delay Compensation).
const float* Slice::compensated(const Gradient& gradient) {
  const auto found = values_of_.find(gradient.replica);
  const bool is_known = found != values_of_.end() && !found->second.empty();
  if (options_.compensation == 0 || gradient.is_final || !is_known) return gradient.values;
  scratch_.resize(values_.size());
  const float factor = float(options_.compensation);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const float g = gradient.values[i];
    scratch_[i] = g + factor * g * g * (values_[i] - found->second[i]);
  }
  return are_moderate(scratch_) ? scratch_.data() : gradient.values;
}

bool Slice::reserve_copy(std::int32_t replica) {
  const std::lock_guard lock(mutex_);
  if (options_.compensation == 0 || values_of_.contains(replica)) return true;
  if (options_.budget != nullptr && !options_.budget->take(size() * sizeof(float))) return false;
  values_of_[replica] = {};
  return true;
}

void Slice::note_values_of(std::int32_t replica) {
  if (options_.compensation == 0) return;
  const auto [copy, is_new] = values_of_.try_emplace(replica);
  if (is_new && options_.budget != nullptr) options_.budget->add(size() * sizeof(float));
  copy->second = values_;
}

void Slice::drop_copies() {
  if (options_.budget != nullptr) options_.budget->give_back(values_of_.size() * size() * sizeof(float));
  values_of_.clear();
}

Slice::Applied Slice::apply(const Gradient& gradient, float* values) {
  const std::lock_guard lock(mutex_);
  require_values();
  Applied applied{.lr = gradient.lr, .direction = gradient.values};
  const bool is_new = !tickets_.contains(gradient.ticket);
  if (is_new) {
    const std::int64_t delay = version_ - gradient.base;
    const double lr = options_.staleness_aware && !gradient.is_final
                          ? gradient.lr / double(std::max<std::int64_t>(1, delay))
                          : gradient.lr;
    // First: an update that cannot be logged is not done.
    if (options_.log)
      options_.log->append({.slice = options_.number,
                            .version = version_ + 1,
                            .ticket = gradient.ticket,
                            .replica = gradient.replica,
                            .base = gradient.base,
                            .lr = lr,
                            .of = {gradient.of.begin(), gradient.of.end()}});
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

std::optional<std::int64_t> Slice::read(std::int32_t replica, float* values) {
  const std::lock_guard lock(mutex_);
  if (!filled_) return std::nullopt;
  if (values == nullptr) return version_;
  std::memcpy(values, values_.data(), values_.size() * sizeof(float));
  note_values_of(replica);
  return version_;
}

bool Slice::read_version(std::int64_t version, float* values) {
  const std::lock_guard lock(mutex_);
  if (!filled_) return false;
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
  if (values_of_.erase(replica) > 0 && options_.budget != nullptr)
    options_.budget->give_back(size() * sizeof(float));
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
  if (options_.vectors) take_vectors(state);
  version_ = state.version;
  filled_ = state.filled;
  counts_ = std::move(state.counts);
  tickets_.assign(state.tickets_below, state.tickets_above);
  values_ = std::move(state.arrays[0]);
  for (std::size_t i = 0; i < states_.size(); ++i) states_[i] = std::move(state.arrays[i + 1]);
  previous_.clear();
  drop_copies();
}

void Slice::forget() {
  const std::lock_guard lock(mutex_);
  version_ = 0;
  filled_ = false;
  std::ranges::fill(counts_, 0);
  tickets_ = {};
  drop_copies();
  for (std::vector<float>* array : {&values_, &previous_, &scratch_}) *array = {};
  for (std::vector<float>& state : states_) state = {};
  vectors_.reset();
  count_sums();
}

bool Slice::fill(const float* values) {
  const std::lock_guard lock(mutex_);
  if (filled_) return false;
  values_.assign(values, values + size());
  for (std::vector<float>& state : states_) state.assign(size(), 0.0F);
  if (options_.vectors) vectors_.emplace(*options_.vectors);
  filled_ = true;
  return true;
}

bool Slice::is_filled() {
  const std::lock_guard lock(mutex_);
  return filled_;
}

}  // namespace distbelief::server
