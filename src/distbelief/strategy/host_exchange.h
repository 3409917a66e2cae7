#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "distbelief/comm/algorithms.h"
#include "distbelief/comm/host/domain.h"
#include "distbelief/comm/link_communicator.h"
#include "distbelief/strategy/observer.h"
#include "distbelief/strategy/shared_state.h"

namespace distbelief::strategy {

// The part of a bucket that a host sums up and updates; pure. Central: all of it at the first host.
compute::Span host_chunk(compute::Span bucket, comm::Algorithm algorithm, int hosts, int host);

// One stop of a host's exchange thread. All hosts make the same stops in the same order, because each
// stop waits for its counterparts.
struct ExchangeStop {
  enum class Kind { kSum, kNorms, kPublish, kBuffers };
  Kind kind;
  int bucket = 0;
};
// With early update a bucket is published two sums after its own, so that the carriers have time to
// update it; otherwise all sums come first. `norm_rounds` exchanges of norms come between.
std::vector<ExchangeStop> exchange_stops(int buckets, bool early_update, int norm_rounds);

// Exchanges with the other hosts while the carriers compute: a thread in each host's leading worker,
// the only one that talks to MPI during a step. It takes a bucket when all carriers of the host have
// reduced it, adds the hosts' nodes in tree order (direct, central) or round the ring, and later
// spreads the updated parameters. Tells the carriers through HostSignals. A failure sets the host's
// abort record and is thrown by finish_step().
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
    int norm_rounds = 0;
    Observer* observer = nullptr;
  };
  explicit HostExchange(const Options& options);
  ~HostExchange();

  // `step` is for messages.
  void start_step(std::int64_t round, std::int64_t step);
  void finish_step();

  // Collective over the leaders: the first host gets every host's part of an array over the arena.
  void gather(float* values);

 private:
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

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::int64_t wanted_round_ = -1;
  std::int64_t step_ = 0;
  std::int64_t done_round_ = -1;
  std::exception_ptr failure_;
  std::jthread thread_;
};

}  // namespace distbelief::strategy
