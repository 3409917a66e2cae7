#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/comm/world.h"
#include "distbelief/mesh/allreduce.h"

namespace distbelief::mesh {

// Everything that a worker needs for synchronous training: the lane plan, the memory shared with the other
// workers of its host, and one AllreduceSharing per thread. All workers construct it together; the world
// outlives it.
class AllreduceGroup {
 public:
  struct Options {
    std::int64_t lanes = 0;                        // 0: one per carrier
    std::optional<TreeNode> part{};                // the lanes that this world carries; empty: all
    std::vector<std::int64_t> lanes_of_workers{};  // empty: as even as possible
    int threads = 1;                               // carriers per worker
    int zero = 1;  // ZeRO stage: 1 shards optimizer state, 2 also gradients, 3 also parameters
    // With zero = 3: workers of a host also hold parameters only during use.
    bool zero_inside_host = false;
    std::string state_dir;  // folder of a file for the optimizer's state; empty: shared memory
    OptimizerConfig optimizer;
    std::vector<double> lr_factors{};  // factor on the step's learning rate per parameter; empty: 1
    double clip_norm = 0;
    Overlap overlap = Overlap::kOff;
    std::size_t bucket_bytes = std::size_t{4} << 20;
    std::size_t lane_values = 0;  // floats that each lane hands to all workers, averaged
    std::function<void(std::span<double>)> join_layers{};  // as in SliceUpdate
    // One per thread, then one for the exchange between hosts. May be empty.
    std::vector<Observer*> observers;
  };

  AllreduceGroup(World& world, const std::vector<compute::Layout::Parameter>& parameters, Options options);
  ~AllreduceGroup();

  // Bytes of shared memory that a host with these workers needs. Pure.
  static std::size_t bytes_needed(const std::vector<compute::Layout::Parameter>& parameters,
                                  const Options& options, const std::vector<int>& workers_per_host, int host);

  // Bytes of the optimizer's state. bytes_needed() leaves them out when options.state_dir names a folder.
  // Pure.
  static std::size_t state_bytes(const std::vector<compute::Layout::Parameter>& parameters,
                                 const Options& options);

  const compute::Layout& layout() const { return layout_; }
  const LanePlan& plan() const { return plan_; }
  AllreduceSharing& sharing(int thread) { return *sharings_[std::size_t(thread)]; }
  int threads() const { return options_.threads; }
  const Carrier& carrier(int thread) const;

  float* parameters() const { return state_->parameters(); }
  // Whether a worker holds parameters only during use. It then reads them with read_parameters(), which maps
  // no pages into the worker, and touches in parameters() only those that it updates.
  bool shares_out_parameters() const { return shares_out_parameters(options_, world_.local_size()); }
  static bool shares_out_parameters(const Options& options, int workers_of_host) {
    return options.zero == 3 && options.zero_inside_host && workers_of_host > 1;
  }
  // Whether a host keeps only its chunk of the parameters and gathers blocks from the other hosts when
  // carriers reach them. If so, call gather_blocks() before the first step with each block's spans in
  // parameters(), in the order of forward, and with the passes of a step (default: one pass there and back
  // per lane).
  bool gathers_between_hosts() const { return options_.zero == 3 && world_.hosts() > 1; }
  void gather_blocks(const std::vector<std::vector<compute::Span>>& blocks, std::vector<Pass> passes = {});
  // Collective: starts `passes` forward passes without a step. Each thread's passes() either runs through
  // them or skips them.
  void begin_evaluation(std::int64_t passes);
  void end_evaluation();
  // Collective: frees the memory of gathered or spread values that belong to other hosts.
  void forget_gathered();
  std::vector<compute::Span> host_spans() const;  // spans that this host updates, bucket by bucket

  void read_parameters(compute::Span span, float* into) const { state_->read_parameters(span, into); }
  // Collective, between steps: as read_parameters(), but also reads parameters that other hosts keep.
  void read_everywhere(compute::Span span, float* into);
  // The spans that this worker updates, in the order of buckets.
  std::vector<compute::Span> owned_spans() const;
  std::vector<std::string> state_names() const { return optimizer_->state_names(); }
  float* state(int index) const { return state_->state(index); }
  // Collective; does nothing on one host. Gives the first host all optimizer state and all parameters.
  void gather_state();
  // Collective; does nothing on one host. Gives every host all optimizer state and all parameters.
  void share_state();
  // Collective: copies one host's parameters and optimizer state to all hosts.
  void spread_state(int from_host = 0);
  // For a resumed run, before its first step.
  void set_update_counts(const std::vector<std::int64_t>& counts);
  // Barrier over the main threads of all workers.
  void barrier() { world_.communicator().barrier(); }

  comm::AbortRecord& abort() { return domains_[0]->abort(); }

  std::size_t bytes_held() const;       // this worker's share of the shared memory
  std::size_t parameters_held() const;  // parameters that this worker updates
  std::size_t shared_bytes() const { return state_->bytes(); }

 private:
  SharedState::Shape shape() const;
  std::size_t parameters_in(const std::vector<compute::Span>& spans) const;
  void touch_owned();
  void gather_parameters();

  World& world_;
  Options options_;
  compute::Layout layout_;
  LanePlan plan_;
  std::unique_ptr<compute::Optimizer> optimizer_;
  std::unique_ptr<SharedState> state_;
  std::vector<std::unique_ptr<comm::HostDomain>> domains_;
  World::Leaders leaders_;  // for the exchange thread, while other threads use the world's communicator
  std::unique_ptr<HostExchange> exchange_;
  std::vector<std::unique_ptr<AllreduceSharing>> sharings_;
};

}  // namespace distbelief::mesh
