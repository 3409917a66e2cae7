#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "distbelief/compute/layout.h"
#include "distbelief/mesh/shared_state.h"

namespace distbelief::mesh {

// Passes gradients on when no carrier keeps them whole (ZeRO-2; Rajbhandari et al., "ZeRO", 2020). A carrier
// has a few slots of shared memory, each as large as the largest bucket, and uses them in turn. An item is
// one bucket of one round of lanes; all carriers go through the items in the same order, round by round. A
// slot is free again once every owner has added its slice of the item. Between rounds, owners keep a stack of
// partial sums of their own slices. One per carrier, used by its thread.
class GradientWindow {
 public:
  struct Options {
    const compute::Layout* layout = nullptr;
    const LanePlan* plan = nullptr;
    SharedState* state = nullptr;
    int host = 0;
    int carrier = 0;  // index on the host
    // Returns when all carriers have summed this item; until then sums the slices that this carrier owns.
    std::function<void(std::int64_t item)> free_item;
    // Called when this carrier has handed in all items below `items`.
    std::function<void(std::int64_t items)> filled;
  };
  explicit GradientWindow(Options options);

  std::int64_t items() const { return rounds_ * buckets_; }
  int bucket_of(std::int64_t item) const { return int(item % buckets_); }
  bool is_last_round(std::int64_t item) const { return item / buckets_ + 1 == rounds_; }

  void begin_step() { lane_ = -1; }
  void begin_lane();
  // Stores a gradient of the current lane; null means zero. Blocks while no slot is free. A gradient whose
  // slot still waits for other buckets of this carrier is set aside until then.
  void put(int parameter, const float* values);

  // Sums [slice.begin, slice.end) of an item over its lanes, block by block. In the last round, `visit`
  // receives the host's nodes of each block; earlier rounds push them on the stack.
  using Visit = std::function<void(std::size_t at, std::span<const float* const> nodes)>;
  void add_up(std::int64_t item, compute::Span slice, const Visit& visit);

 private:
  struct Early {
    int parameter = 0;
    std::vector<float> values;  // empty: zeros
  };
  bool has_way(int bucket) const { return bucket - slots_ < filled_; }
  void write(int bucket, int parameter, const float* values);
  void add_block(const Round& round, std::int64_t item, std::size_t at);
  const Host& host() const { return options_.plan->hosts[std::size_t(options_.host)]; }

  Options options_;
  int slots_;
  std::int64_t buckets_;
  std::int64_t rounds_;
  std::int64_t lane_ = -1;                   // index among this carrier's lanes, which is the round
  std::int64_t opened_ = 0;                  // items below it may be written
  int filled_ = 0;                           // buckets of this lane that are full, in order
  std::vector<int> pending_;                 // per bucket: parameters missing
  std::map<int, std::vector<Early>> early_;  // per bucket
  std::vector<const float*> stack_;
  std::vector<float> scratch_;
};

}  // namespace distbelief::mesh
