#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distbelief/base/config.h"
#include "distbelief/comm/world.h"
#include "distbelief/mesh/allreduce.h"

namespace distbelief::mesh {

// Everything that a worker needs to take part in synchronous training: the plan of lanes, the memory
// shared with the other workers of its host, and one AllreduceSharing per thread. Made by all workers
// together; the world outlives it.
class AllreduceGroup {
 public:
  struct Options {
    std::int64_t lanes = 0;                        // 0: one for every carrier
    std::optional<TreeNode> part{};                // of these that this world carries; nothing: all
    std::vector<std::int64_t> lanes_of_workers{};  // empty: as even as can be
    int threads = 1;                               // carriers per worker
    int zero = 1;  // what is shared out: 1 the optimizer's state, 2 gradients too, 3 parameters too
    bool zero_inside_host =
        false;              // with 3: workers of a host, too, have parameters only while they use them
    std::string state_dir;  // folder of a file that holds the optimizer's state; empty: shared memory does
    OptimizerConfig optimizer;
    std::vector<double> lr_factors{};  // per parameter, of the step's learning rate; empty: 1
    double clip_norm = 0;
    Overlap overlap = Overlap::kOff;
    std::size_t bucket_bytes = std::size_t{4} << 20;
    std::size_t lane_values = 0;                           // floats that each lane hands to all, averaged
    std::function<void(std::span<double>)> join_layers{};  // of AllreduceSharing
    std::vector<Observer*> observers;  // per thread, then one for the exchange between hosts; may be empty
  };

  AllreduceGroup(World& world, const std::vector<compute::Layout::Parameter>& parameters, Options options);
  ~AllreduceGroup();

  // Bytes of shared memory that a host with these workers will need. Pure.
  static std::size_t bytes_needed(const std::vector<compute::Layout::Parameter>& parameters,
                                  const Options& options, const std::vector<int>& workers_per_host, int host);

  // Bytes of the optimizer's state, which are not in these when options.state_dir names a folder. Pure.
  static std::size_t state_bytes(const std::vector<compute::Layout::Parameter>& parameters,
                                 const Options& options);

  const compute::Layout& layout() const { return layout_; }
  const LanePlan& plan() const { return plan_; }
  AllreduceSharing& sharing(int thread) { return *sharings_[std::size_t(thread)]; }
  int threads() const { return options_.threads; }
  const Carrier& carrier(int thread) const;

  float* parameters() const { return state_->parameters(); }
  // Whether a worker is to have parameters only while it uses them: it then reads them with
  // read_parameters(), whose pages do not become its own, and touches in parameters() what it updates.
  bool shares_out_parameters() const { return shares_out_parameters(options_, world_.local_size()); }
  static bool shares_out_parameters(const Options& options, int workers_of_host) {
    return options.zero == 3 && options.zero_inside_host && workers_of_host > 1;
  }
  // Whether a host keeps only its chunk of the parameters: blocks are gathered from the others when carriers
  // come to them. Say which before the first step: where they lie in parameters(), in the order of forward;
  // and the passes of a step, when they are others than there and back for each lane.
  bool gathers_between_hosts() const { return options_.zero == 3 && world_.hosts() > 1; }
  void gather_blocks(const std::vector<std::vector<compute::Span>>& blocks, std::vector<Pass> passes = {});
  // Collective: so many passes forward without a step; each thread's passes() go through them or not.
  void begin_evaluation(std::int64_t passes);
  void end_evaluation();
  // Collective: gives back the memory of what belongs to other hosts and was gathered or spread.
  void forget_gathered();
  std::vector<compute::Span> host_spans() const;  // that this host updates, bucket by bucket

  void read_parameters(compute::Span span, float* into) const { state_->read_parameters(span, into); }
  // Collective, between steps: the same of what other hosts keep, too.
  void read_everywhere(compute::Span span, float* into);
  // What this worker updates, in the order of buckets.
  std::vector<compute::Span> owned_spans() const;
  std::vector<std::string> state_names() const { return optimizer_->state_names(); }
  float* state(int index) const { return state_->state(index); }
  // Collective; nothing to do on one host. The first host then has all of the optimizer's state, and all
  // parameters.
  void gather_state();
  // Collective; nothing to do on one host. Every host then has all of the optimizer's state and all
  // parameters.
  void share_state();
  // Collective: one host's parameters and optimizer state go to all hosts.
  void spread_state(int from_host = 0);
  // Of a run that goes on, before its first step.
  void set_update_counts(const std::vector<std::int64_t>& counts);
  // All carriers of this host's main threads meet.
  void barrier() { world_.communicator().barrier(); }

  comm::AbortRecord& abort() { return domains_[0]->abort(); }

  std::size_t bytes_held() const;       // of the shared memory, this worker's share
  std::size_t parameters_held() const;  // that this worker updates
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
  World::Leaders leaders_;  // whose thread talks while others use the world's communicator
  std::unique_ptr<HostExchange> exchange_;
  std::vector<std::unique_ptr<AllreduceSharing>> sharings_;
};

}  // namespace distbelief::mesh
