#pragma once

#include <memory>

#include "distbelief/comm/communicator.h"
#include "distbelief/comm/host/communicator.h"

namespace distbelief::comm {

// Ranks on several hosts: shared memory inside a host; between hosts one leader per host (its first rank).
// Ranks of one host are consecutive. An allreduce of V bytes over h hosts moves 2 V (h-1)/h over each host's
// wire, whatever the number of its ranks.
class TwoLevelCommunicator final : public Communicator {
 public:
  struct Options {
    int first_rank = 0;  // world rank of this host's leader
    std::vector<int> ranks_per_host;
    HostCommunicator* host = nullptr;
    Communicator* leaders = nullptr;  // null on all but the leaders
    Communicator* world = nullptr;    // for point-to-point messages
  };
  explicit TwoLevelCommunicator(Options options);

  void allreduce(View values, ReduceOp op) override;
  void reduce_scatter(View values, ReduceOp op) override { allreduce(values, op); }
  void allgather(View values) override;
  void broadcast(View values, int root) override;
  void barrier() override;
  Link& messages() override { return options_.world->messages(); }

 private:
  int host_of(int rank) const;
  Options options_;
};

}  // namespace distbelief::comm
