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

// How much of the exchange runs during backward. kUpdate: sums a bucket and updates its parameters as soon as
// it is final on all carriers. kReduce: sums it during backward and updates after backward. kOff: does both
// after backward. kCheck tests whether kUpdate is safe for a network: it works as kReduce, but writes NaN
// where kUpdate would write new parameters until backward ends, so that a late read turns the gradient into
// NaN.
enum class Overlap { kUpdate, kReduce, kOff, kCheck };

// Synchronous data parallelism. All carriers compute the gradients of their lanes. Each carrier owns a slice
// of every bucket: it sums the slice over all lanes in the fixed tree, applies the optimizer and writes the
// new parameters in one pass over memory. A host holds one copy of the parameters.
class AllreduceSharing final : public Sharing {
 public:
  struct Options {
    const compute::Layout* layout = nullptr;
    const LanePlan* plan = nullptr;
    SharedState* state = nullptr;
    comm::HostDomain* domain = nullptr;
    const compute::Optimizer* optimizer = nullptr;
    // Set for the first carrier of each host's leader when there are several hosts.
    HostExchange* exchange = nullptr;
    comm::Algorithm algorithm = comm::Algorithm::kDirect;  // between hosts
    int host = 0;
    double clip_norm = 0;
    Overlap overlap = Overlap::kOff;
    std::size_t buffers = 0;
    bool windowed = false;  // carriers hold no whole gradient; the plan deals lanes in rounds
    Observer* observer = nullptr;
    std::vector<double> lr_factors = {};                      // as in SliceUpdate
    std::function<void(std::span<double>)> join_layers = {};  // as in SliceUpdate
  };

  // Time spent on exchange and update since the start.
  struct Times {
    std::chrono::nanoseconds early{};     // during backward
    std::chrono::nanoseconds late{};      // after backward, including waits
    std::chrono::nanoseconds waiting{};   // waiting for other carriers or hosts
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
  // The values that a lane of this host handed over in the last step.
  std::span<const float> lane_values(std::int64_t lane) const {
    return {options_.state->lane_buffers(lane, round_), options_.buffers};
  }

  // Call before the first step. Parameters are then gathered from other hosts block by block, in these passes
  // of a step. This host skips the first `skipped` passes.
  void gather_blocks(int blocks, const std::vector<Pass>& passes, std::int64_t skipped);
  BlockPasses* passes() { return passes_ ? &*passes_ : nullptr; }

  // The two halves of end_step(), for networks whose other parameters are in other groups: sum_up() sums all
  // gradients of the step; finish_step() updates the parameters, given the squared norm over all groups.
  void sum_up();
  // Squared gradient norm per parameter; only when clipping.
  std::span<const double> squared_norms() const { return squared_norms_; }
  void finish_step(double squared_norm);

  const Times& times() const { return times_; }
  // Norm of the whole gradient of the last step; only when clipping.
  double gradient_norm() const { return gradient_norm_; }
  const std::vector<std::int64_t>& update_counts() const { return update_.counts(); }
  // Sets the updates per parameter of a resumed run.
  void set_update_counts(const std::vector<std::int64_t>& counts) { update_.set_counts(counts); }
  // The rounds of norms that a step needs.
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
  const float* sum_of(int bucket) const;  // points at the bucket's first element
  CarrierSignals& own() const { return options_.state->carrier(options_.domain->member()); }
  const Carrier& carrier() const;
  bool has_lanes() const { return !carrier().lanes.empty(); }
  compute::Span own_slice(compute::Span span) const;
  const Host& host() const { return options_.plan->hosts[std::size_t(options_.host)]; }
  bool several_hosts() const { return options_.plan->hosts.size() > 1; }

  Options options_;
  bool fused_;         // sums and updates in one pass
  bool early_update_;  // updates during backward
  int buckets_;
  SliceUpdate update_;
  SliceShare share_;
  comm::Waiter resting_waiter_;             // for a carrier without lanes
  std::optional<GradientStack> stack_;      // set unless windowed
  std::optional<GradientWindow> window_;    // set when windowed
  std::int64_t added_ = 0;                  // items of this step that are summed
  bool is_adding_ = false;                  // true inside take_item(), which may wait
  std::optional<comm::IdleWork> settling_;  // sums items while this carrier waits for something else
  std::optional<BlockPasses> passes_;       // set when blocks are gathered from other hosts
  std::vector<Pass> passes_of_step_;
  std::int64_t skipped_passes_ = 0;

  std::int64_t round_ = -1;  // steps taken by this object
  StepPlan step_;
  std::vector<std::int64_t> lane_samples_;
  std::int64_t lane_ = 0;
  std::vector<std::uint8_t> seen_;  // parameters with a gradient in this lane
  int reduced_ = 0, updated_ = 0;
  std::vector<std::vector<float>> poisoned_;  // per bucket: the values that NaN replaces
  bool in_backward_ = false;
  std::uint32_t measures_ = 0;
  std::vector<double> squared_norms_;  // per parameter
  double gradient_norm_ = 0;
  std::vector<float> mean_buffers_;
  Times times_;
};

}  // namespace distbelief::mesh
