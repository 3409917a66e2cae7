#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "distbelief/comm/host/domain.h"
#include "distbelief/compute/layout.h"
#include "distbelief/compute/optimizer.h"
#include "distbelief/strategy/block_passes.h"
#include "distbelief/strategy/gradient_window.h"
#include "distbelief/strategy/host_exchange.h"
#include "distbelief/strategy/observer.h"
#include "distbelief/strategy/shared_state.h"
#include "distbelief/strategy/sharing.h"

namespace distbelief::strategy {

// What may happen while backward still runs. kUpdate: a bucket that is final on all carriers is summed
// and its parameters updated at once; kReduce: it is summed, and updated after backward; kOff: neither.
enum class Overlap { kUpdate, kReduce, kOff };

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
    // Adds up what other groups have of the same layers: squared norms per parameter; may be empty.
    std::function<void(std::span<double>)> join_layers = {};
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
  void gradient(int parameter, const float* values) override;
  void end_lane() override;
  void end_step() override;
  std::span<const float> mean_buffers() const override { return mean_buffers_; }

  // Before the first step: parameters are gathered from other hosts block by block, in so many laps a step.
  void gather_blocks(int blocks, std::int64_t laps);
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
  const std::vector<std::int64_t>& update_counts() const { return update_counts_; }
  // Per parameter, of a run that goes on.
  void set_update_counts(const std::vector<std::int64_t>& counts) { update_counts_ = counts; }
  // How many rounds of norms a step needs.
  static int norm_rounds(const compute::Optimizer& optimizer, double clip_norm);
  // Whether sums must be kept between reduce and update.
  static bool keeps_sums(const Options& options);

 private:
  enum class Mode { kPoll, kBlock };
  void store(int parameter, const float* values);
  void filled(int parameter);
  void advance(Mode mode);
  void make_window();
  void begin_laps();
  bool take_item(Mode mode);
  bool has_room_for_sum(int bucket, Mode mode);
  void update_early(int end_bucket, Mode mode);
  void free_item(std::int64_t item);
  void items_filled(std::int64_t items);
  void add_item(std::int64_t item);
  bool enter(comm::Signal CarrierSignals::*signal, std::uint32_t wanted, const char* what, Mode mode);
  bool enter_host(comm::Signal HostSignals::*signal, std::uint32_t wanted, const char* what, Mode mode);
  void reduce_bucket(int bucket);
  void update_bucket(int bucket);
  void update_block(std::size_t begin, std::size_t end, const float* gradients);
  template <typename Visit>
  void for_each_segment(int bucket, const Visit& visit) const;
  compute::UpdateRange range_of(const compute::Segment& segment, const float* gradients) const;
  void measure_gradients();
  void measure_layers();
  void meet_measures(const char* what);
  bool touched(int parameter) const;
  void count_updates();
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
  const compute::LayerwiseOptimizer* layerwise_;
  bool fused_;         // sum and update in one pass
  bool early_update_;  // during backward
  int buckets_;
  std::size_t states_;  // optimizer arrays
  SliceShare share_;
  comm::Waiter resting_waiter_;      // of a carrier without lanes
  std::vector<NodeSource> sources_;  // fused: everything to add
  std::vector<int> merges_;
  std::optional<GradientWindow> window_;  // when windowed
  std::int64_t added_ = 0;                // items of this step
  std::int64_t handed_in_ = 0;            // by this carrier
  std::optional<BlockPasses> passes_;     // when blocks are gathered from other hosts
  std::int64_t laps_ = 0;

  std::int64_t round_ = -1;  // steps taken by this object
  StepPlan step_;
  std::vector<std::int64_t> lane_samples_;
  std::int64_t lane_ = 0;
  int lane_slot_ = 0;               // where this lane's gradient goes on the stack of buffers
  int lane_merges_ = 0;             // and how often it is merged downwards
  std::vector<std::uint8_t> seen_;  // parameters with a gradient in this lane
  std::vector<int> pending_;        // per bucket, in the last lane
  int filled_ = 0, reduced_ = 0, updated_ = 0;
  bool in_backward_ = false;
  std::uint32_t measures_ = 0;
  std::vector<double> squared_norms_;  // per parameter
  float gradient_scale_ = 1;
  double gradient_norm_ = 0;
  std::vector<double> trust_;
  std::vector<std::int64_t> update_counts_;  // per parameter
  std::vector<float> mean_buffers_;
  std::vector<float> scratch_;
  std::vector<const float*> inputs_;
  Times times_;
};

}  // namespace distbelief::strategy
