#include <cstring>

#include "distbelief/mesh/allreduce.h"

// The part of AllreduceSharing that sums gradients item by item when they pass through a window
// (parallel.zero 2 and 3).
//
// Why no deadlock occurs: a carrier that waits (for a slot, for a gathered block, or for another stage or
// slice of its network) meanwhile sums its slices of all items that are handed in (IdleWork). All copies
// reach their waits in the same order. Take the copy with the least progress: the item that it waits for was
// handed in by copies that are further, or is summed by them while they wait.
namespace distbelief::mesh {

using compute::kBlock;

void AllreduceSharing::make_window() {
  window_.emplace(GradientWindow::Options{.layout = options_.layout,
                                          .plan = options_.plan,
                                          .state = options_.state,
                                          .host = options_.host,
                                          .carrier = options_.domain->member(),
                                          .free_item = [this](std::int64_t item) { free_item(item); },
                                          .filled = [this](std::int64_t items) { items_filled(items); }});
}

void AllreduceSharing::gather_blocks(int blocks, const std::vector<Pass>& passes, std::int64_t skipped) {
  passes_.emplace(BlockPasses::Options{.state = options_.state, .domain = options_.domain, .blocks = blocks});
  passes_of_step_ = passes;
  skipped_passes_ = skipped;
}

// Sums the items that others may wait for, without waiting itself. Returns whether there were any.
bool AllreduceSharing::settle() {
  if (is_adding_) return false;
  const std::int64_t before = added_;
  while (added_ < window_->items() && take_item(Mode::kPoll)) {
  }
  return added_ > before;
}

void AllreduceSharing::items_filled(std::int64_t items) {
  const bool is_last_lane = lane_ == carrier().lanes.back();
  const bool is_whole = items % buckets_ == 0;
  own().ready.raise(count_of_items(is_last_lane && is_whole ? window_->items() : items));
  advance_early();
}

void AllreduceSharing::free_item(std::int64_t item) {
  while (added_ <= item) take_item(Mode::kBlock);
  enter(&CarrierSignals::consumed, count_of_items(item + 1), "add up gradients", Mode::kBlock);
}

// Sums the next item. Returns whether it was available.
bool AllreduceSharing::take_item(Mode mode) {
  is_adding_ = true;
  const bool was_there = try_item(mode);
  is_adding_ = false;
  return was_there;
}

bool AllreduceSharing::try_item(Mode mode) {
  if (!enter(&CarrierSignals::ready, count_of_items(added_ + 1), "compute gradients", mode)) return false;
  const int bucket = window_->bucket_of(added_);
  const bool is_final = window_->is_last_round(added_);
  if (is_final && several_hosts() && !has_room_for_sum(bucket, mode)) return false;
  add_item(added_);
  own().consumed.raise(count_of_items(++added_));
  if (is_final) (fused_ ? own().updated : own().reduced).raise(count_of(bucket + 1));
  return true;
}

// A bucket's sum slot is free when the hosts have exchanged the sum that it held before. With early update,
// the exchange also waits for this carrier's updates.
bool AllreduceSharing::has_room_for_sum(int bucket, Mode mode) {
  if (bucket < SharedState::kSumSlots) return true;
  const int before = bucket - SharedState::kSumSlots + 1;
  update_early(before, mode);
  return enter_host(&HostSignals::exchanged, count_of(before), "exchange gradients", mode);
}

void AllreduceSharing::add_item(std::int64_t item) {
  const int bucket = window_->bucket_of(item);
  const compute::Span whole = options_.layout->buckets()[std::size_t(bucket)].span;
  const std::size_t begin = whole.begin;
  if (fused_ && window_->is_last_round(item)) ++updated_;
  window_->add_up(item, reduce_slice(bucket), [&](std::size_t at, std::span<const float* const> nodes) {
    if (fused_) return update_.update_block(at, nodes[0]);
    for (std::size_t n = 0; n < nodes.size(); ++n)
      std::memcpy(options_.state->sum(int(n), bucket) + (at - begin), nodes[n], kBlock * sizeof(float));
  });
}

}  // namespace distbelief::mesh
