#include "distbelief/mesh/gradient_window.h"

#include <algorithm>
#include <cstring>

#include "distbelief/base/vector.h"

namespace distbelief::mesh {

using compute::kBlock;

GradientWindow::GradientWindow(Options options)
    : options_(std::move(options)),
      slots_(SharedState::kWindowSlots),
      buckets_(std::int64_t(options_.layout->buckets().size())),
      rounds_(std::max<std::int64_t>(1, std::int64_t(host().rounds.size()))),
      pending_(std::size_t(buckets_)) {
  int height = 1;
  for (const Round& round : host().rounds)
    height = std::max(height, round.before + int(round.carriers.size()));
  scratch_.resize(std::size_t(height) * kBlock);
}

void GradientWindow::begin_lane() {
  if (++lane_ == 0) opened_ = slots_;  // all items of the previous step are summed before a step begins
  filled_ = 0;
  for (std::size_t b = 0; b < pending_.size(); ++b)
    pending_[b] = int(options_.layout->buckets()[b].parameters.size());
}

void GradientWindow::put(int parameter, const float* values) {
  const int bucket = options_.layout->bucket_of(parameter);
  if (!has_way(bucket)) {
    Early& early = early_[bucket].emplace_back();
    early.parameter = parameter;
    if (values != nullptr)
      early.values.assign(values, values + options_.layout->entries()[std::size_t(parameter)].count);
    return;
  }
  write(bucket, parameter, values);
  while (!early_.empty() && has_way(early_.begin()->first)) {
    const auto next = early_.extract(early_.begin());
    for (const Early& early : next.mapped())
      write(next.key(), early.parameter, early.values.empty() ? nullptr : early.values.data());
  }
}

void GradientWindow::write(int bucket, int parameter, const float* values) {
  const std::int64_t item = lane_ * buckets_ + bucket;
  if (item >= opened_) {
    options_.free_item(item - slots_);
    opened_ = item + 1;
  }
  const compute::Entry& entry = options_.layout->entries()[std::size_t(parameter)];
  float* place = options_.state->window(options_.carrier, item) + entry.offset -
                 options_.layout->buckets()[std::size_t(bucket)].span.begin;
  if (values != nullptr)
    std::memcpy(place, values, entry.count * sizeof(float));
  else
    std::memset(place, 0, entry.count * sizeof(float));
  if (--pending_[std::size_t(bucket)] > 0) return;
  const int before = filled_;
  while (filled_ < buckets_ && pending_[std::size_t(filled_)] == 0) ++filled_;
  if (filled_ > before) options_.filled(lane_ * buckets_ + filled_);
}

void GradientWindow::add_up(std::int64_t item, compute::Span slice, const Visit& visit) {
  static const Round kNothing;
  const Round& round = host().rounds.empty() ? kNothing : host().rounds[std::size_t(item / buckets_)];
  for (std::size_t at = slice.begin; at < slice.end; at += kBlock) {
    add_block(round, item, at);
    if (is_last_round(item)) {
      visit(at, stack_);
      continue;
    }
    for (std::size_t level = 0; level < stack_.size(); ++level) {
      float* kept = options_.state->partial(int(level)) + at;
      if (stack_[level] != kept) std::memcpy(kept, stack_[level], kBlock * sizeof(float));
    }
  }
}

// Leaves the result of the round for one block in stack_.
void GradientWindow::add_block(const Round& round, std::int64_t item, std::size_t at) {
  const std::size_t begin = options_.layout->buckets()[std::size_t(bucket_of(item))].span.begin;
  stack_.clear();
  for (int level = 0; level < round.before; ++level) stack_.push_back(options_.state->partial(level) + at);
  for (std::size_t i = 0; i < round.carriers.size(); ++i) {
    stack_.push_back(options_.state->window(round.carriers[i], item) + (at - begin));
    for (int merge = 0; merge < round.merges[i]; ++merge) {
      const std::size_t left = stack_.size() - 2;
      float* sum = scratch_.data() + left * kBlock;
      add(sum, stack_[left], stack_[left + 1], kBlock);
      stack_.pop_back();
      stack_[left] = sum;
    }
  }
}

}  // namespace distbelief::mesh
