#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "distbelief/comm/host/domain.h"
#include "distbelief/comm/idle_work.h"
#include "distbelief/compute/layout.h"
#include "distbelief/compute/optimizer.h"
#include "distbelief/mesh/block_passes.h"
#include "distbelief/mesh/gradient_stack.h"
#include "distbelief/mesh/gradient_window.h"
#include "distbelief/mesh/host_exchange.h"
#include "distbelief/mesh/observer.h"
#include "distbelief/mesh/shared_state.h"
#include "distbelief/mesh/sharing.h"
#include "distbelief/mesh/slice_update.h"

namespace distbelief::mesh {

// What may happen while backward still runs. kUpdate: a bucket that is final on all carriers is summed
// and its parameters updated at once; kReduce: it is summed, and updated after backward; kOff: neither.
// kCheck finds out whether kUpdate would be right: as kReduce, but what kUpdate would write is not a number
// until backward has ended, so that who reads it too late spoils the gradient for all to see.
enum class Overlap { kUpdate, kReduce, kOff, kCheck };

// Synchronous data parallelism (S3.1): all carriers compute gradients of their lanes, each carrier owns
// a slice of every bucket, adds it up over all lanes in the fixed tree, applies the optimizer to it and
// writes the new parameters, which exist once per host, in one pass over memory.
class AllreduceSharing final : public Sharing {
 public:
  struct Options {
    const compute::Layout* layout = nullptr;
    const LanePlan* plan = nullptr;
    SharedState* state = nullptr;
    comm::HostDomain* domain = nullptr;
    const compute::Optimizer* optimizer = nullptr;
    HostExchange* exchange =
        nullptr;  // on the first carrier of each host's leader, when there are several hosts
    comm::Algorithm algorithm = comm::Algorithm::kDirect;  // between hosts
    int host = 0;
    double clip_norm = 0;
    Overlap overlap = Overlap::kOff;
    std::size_t buffers = 0;
    bool windowed = false;  // no carrier keeps its gradients whole; the plan deals lanes in rounds
    Observer* observer = nullptr;
    std::vector<double> lr_factors = {};                      // of SliceUpdate
    std::function<void(std::span<double>)> join_layers = {};  // of SliceUpdate
  };

  // Where the time of exchange and update went, since the start.
  struct Times {
    std::chrono::nanoseconds early{};     // during backward
    std::chrono::nanoseconds late{};      // after it, waiting included
    std::chrono::nanoseconds waiting{};   // for other carriers or hosts
    std::chrono::nanoseconds updating{};  // summing, updating, publishing on this thread
  };

  explicit AllreduceSharing(Options options);

  void begin_step(const StepPlan& plan) override;
  void begin_lane(std::int64_t lane) override;
  std::span<float> lane_buffers() override;
  float* gradient_place(int parameter) override { return stack_ ? stack_->place(parameter) : nullptr; }
  void gradient(int parameter, const float* values) override;
  void end_lane() override;
  void end_step() override;
  std::span<const float> mean_buffers() const override { return mean_buffers_; }
  // What a lane of this host handed over in the step that ended.
  std::span<const float> lane_values(std::int64_t lane) const {
    return {options_.state->lane_buffers(lane, round_), options_.buffers};
  }

  // Before the first step: parameters are gathered from other hosts block by block, in these passes of a
  // step, of which this host lets the first go by.
  void gather_blocks(int blocks, const std::vector<Pass>& passes, std::int64_t skipped);
  BlockPasses* passes() { return passes_ ? &*passes_ : nullptr; }

  // end_step() in two halves, where other groups hold other parameters of the same network: all of a step's
  // gradients are added up; then, with the sum of all groups' squared norms, the parameters are updated.
  void sum_up();
  // Of each parameter's gradient, when clipping.
  std::span<const double> squared_norms() const { return squared_norms_; }
  void finish_step(double squared_norm);

  const Times& times() const { return times_; }
  // The norm of the whole gradient of the last step; only when clipping.
  double gradient_norm() const { return gradient_norm_; }
  const std::vector<std::int64_t>& update_counts() const { return update_.counts(); }
  // Per parameter, of a run that goes on.
  void set_update_counts(const std::vector<std::int64_t>& counts) { update_.set_counts(counts); }
  // How many rounds of norms a step needs.
  static int norm_rounds(const compute::Optimizer& optimizer, double clip_norm);
  // Whether sums must be kept between reduce and update.
  static bool keeps_sums(const Options& options);

 private:
  enum class Mode { kPoll, kBlock };
  void put(int parameter, const float* values);
  void buckets_filled(int buckets);
  void advance_early();
  void advance(Mode mode);
  void make_window();
  bool settle();
  bool take_item(Mode mode);
  bool try_item(Mode mode);
  bool has_room_for_sum(int bucket, Mode mode);
  void update_early(int end_bucket, Mode mode);
  void free_item(std::int64_t item);
  void items_filled(std::int64_t items);
  void add_item(std::int64_t item);
  bool enter(comm::Signal CarrierSignals::*signal, std::uint32_t wanted, const char* what, Mode mode);
  bool enter_host(comm::Signal HostSignals::*signal, std::uint32_t wanted, const char* what, Mode mode);
  void reduce_bucket(int bucket);
  void update_bucket(int bucket);
  void poison(int bucket);
  void restore_poisoned();
  SummedSlice own_sum(int bucket) const;
  std::vector<SummedSlice> own_sums() const;
  void meet_measures(const char* what);
  void average_buffers();
  compute::Span reduce_slice(int bucket) const;
  compute::Span update_slice(int bucket) const;
  std::uint32_t count_of(int buckets) const;
  std::uint32_t count_of_items(std::int64_t items) const;
  const float* sum_of(int bucket) const;  // from the bucket's first element on
  CarrierSignals& own() const { return options_.state->carrier(options_.domain->member()); }
  const Carrier& carrier() const;
  bool has_lanes() const { return !carrier().lanes.empty(); }
  compute::Span own_slice(compute::Span span) const;
  const Host& host() const { return options_.plan->hosts[std::size_t(options_.host)]; }
  bool several_hosts() const { return options_.plan->hosts.size() > 1; }

  Options options_;
  bool fused_;         // sum and update in one pass
  bool early_update_;  // during backward
  int buckets_;
  SliceUpdate update_;
  SliceShare share_;
  comm::Waiter resting_waiter_;             // of a carrier without lanes
  std::optional<GradientStack> stack_;      // one of the two
  std::optional<GradientWindow> window_;    // when windowed
  std::int64_t added_ = 0;                  // items of this step
  bool is_adding_ = false;                  // waits in the middle of it
  std::optional<comm::IdleWork> settling_;  // while others may wait for what this carrier adds up
  std::optional<BlockPasses> passes_;       // when blocks are gathered from other hosts
  std::vector<Pass> passes_of_step_;
  std::int64_t skipped_passes_ = 0;

  std::int64_t round_ = -1;  // steps taken by this object
  StepPlan step_;
  std::vector<std::int64_t> lane_samples_;
  std::int64_t lane_ = 0;
  std::vector<std::uint8_t> seen_;  // parameters with a gradient in this lane
  int reduced_ = 0, updated_ = 0;
  std::vector<std::vector<float>> poisoned_;  // by bucket: what belongs there
  bool in_backward_ = false;
  std::uint32_t measures_ = 0;
  std::vector<double> squared_norms_;  // per parameter
  double gradient_norm_ = 0;
  std::vector<float> mean_buffers_;
  Times times_;
};

}  // namespace distbelief::mesh
