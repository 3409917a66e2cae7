#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "distbelief/comm/algorithms.h"
#include "distbelief/comm/host/domain.h"
#include "distbelief/comm/link_communicator.h"
#include "distbelief/mesh/block_passes.h"
#include "distbelief/mesh/observer.h"
#include "distbelief/mesh/shared_state.h"

namespace distbelief::mesh {

// The part of a bucket that a host sums and updates. With the central algorithm the first host has all of it.
// Pure.
compute::Span host_chunk(compute::Span bucket, comm::Algorithm algorithm, int hosts, int host);

// One stop of a host's exchange thread. All hosts make the same stops in the same order, because each stop
// waits for its counterparts.
struct ExchangeStop {
  enum class Kind { kSum, kNorms, kPublish, kBuffers, kGather };
  Kind kind;
  int bucket = 0;  // for kGather: the place, counted over all passes of a step
};
// The stops of a step. With early update a bucket is published two sums after its own, so that the carriers
// have time to update it; otherwise all sums come first. The `norm_rounds` exchanges of norms and that of
// buffers come after the last sum.
std::vector<ExchangeStop> exchange_stops(int buckets, bool early_update, int norm_rounds);

// The stops when parameters are gathered block by block. A bucket is summed after the backward of the first
// block that uses it, once the preceding block is on its way. Nothing is published.
std::vector<ExchangeStop> gather_stops(const compute::Layout& layout,
                                       const std::vector<std::vector<compute::Span>>& blocks,
                                       const std::vector<Pass>& passes, int norm_rounds);

// Exchanges data with the other hosts while the carriers compute. Runs a thread in each host's leading
// worker, the only thread that calls MPI during a step. It takes a bucket when all carriers of the host have
// reduced it, adds the hosts' nodes in tree order (direct, central) or round the ring, and later distributes
// the updated parameters. It signals the carriers through HostSignals. A failure sets the host's abort
// record; finish_step() throws it.
class HostExchange {
 public:
  struct Options {
    const compute::Layout* layout = nullptr;
    const LanePlan* plan = nullptr;
    SharedState* state = nullptr;
    comm::AbortRecord* abort = nullptr;
    comm::LinkCommunicator* leaders = nullptr;
    int first_rank = 0;  // world rank of this host's leader
    int rank_stride = 1;
    int threads = 1;  // carriers per worker
    std::size_t buffers = 0;
    bool early_update = false;
    bool windowed = false;  // gradients pass through a window: carriers need sums during backward
    int norm_rounds = 0;
    std::chrono::nanoseconds deadline = std::chrono::seconds(120);  // of waits for this host's carriers
    Observer* observer = nullptr;
  };
  explicit HostExchange(const Options& options);
  ~HostExchange();

  // Call before the first step. Each host then keeps only its chunk of the parameters, and these blocks are
  // gathered when carriers reach them (BlockPasses), in these passes of a step.
  void gather_blocks(std::vector<std::vector<compute::Span>> blocks, const std::vector<Pass>& passes);

  // `step` appears in messages.
  void start_step(std::int64_t round, std::int64_t step);
  // Starts forward passes without a step, for evaluation.
  void start_passes(std::int64_t passes);
  // Waits for start_step() or start_passes() to finish.
  void finish_step();

  // Collective over the leaders: gives the first host every host's part of an array over the arena.
  void gather(float* values);
  // Collective over the leaders, between steps: gives this host all parameters of a span; forget_span() frees
  // those of other hosts again.
  void gather_span(compute::Span span);
  void forget_span(compute::Span span);

 private:
  void start(std::int64_t step, std::function<void()> work);
  void spread(compute::Span span, std::vector<comm::Link::Request>& requests);
  void gather_block(std::int64_t place, const std::vector<int>& course);
  void let_go(int block);
  void end_course(const std::vector<int>& course);
  int bucket_at(std::size_t element) const;
  void run(const std::stop_token& stop);
  void run_step(std::int64_t round);
  void sum_bucket(int bucket, std::int64_t round);
  void sum_in_tree_order(int bucket);
  void sum_round_the_ring(int bucket);
  void exchange_touched(int bucket, std::int64_t round);
  void exchange_norms();
  void publish(int bucket, std::int64_t round);
  void exchange_buffers(std::int64_t round);
  void wait_for_carriers(comm::Signal CarrierSignals::*signal, std::uint32_t wanted, const char* what);
  bool is_leader_done(comm::Signal CarrierSignals::*signal, std::uint32_t wanted) const;
  compute::Span chunk(int bucket, int host) const;
  comm::Parts parts(int bucket) const;
  const Host& own() const { return options_.plan->hosts[std::size_t(host_)]; }

  Options options_;
  int host_;
  int hosts_;
  std::vector<ExchangeStop> stops_;
  std::vector<std::vector<std::size_t>> segments_of_host_;
  comm::Waiter waiter_;
  std::uint32_t measures_ = 0;
  std::vector<float> received_;  // other hosts' nodes of a bucket
  std::vector<float> scratch_;
  std::vector<std::vector<compute::Span>> blocks_;  // empty: every host has all parameters
  std::vector<int> course_;                         // the block of each place in a step
  std::uint32_t places_before_ = 0;                 // places of all earlier passes
  std::map<std::size_t, int> holders_;              // by the begin of a span: its number of users

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::function<void()> work_;  // in progress
  std::int64_t step_ = 0;
  std::int64_t round_ = 0;
  std::exception_ptr failure_;
  std::jthread thread_;
};

}  // namespace distbelief::mesh
