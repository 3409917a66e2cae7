#pragma once

#include <memory>

#include "distbelief/comm/communicator.h"
#include "distbelief/comm/link.h"

namespace distbelief::comm {

// A communicator whose collectives run one named algorithm over a link. Used between hosts.
class LinkCommunicator final : public Communicator {
 public:
  LinkCommunicator(std::unique_ptr<Link> link, Algorithm algorithm);

  void allreduce(View values, ReduceOp op) override;
  void reduce_scatter(View values, ReduceOp op) override;
  void allgather(View values) override;
  void broadcast(View values, int root) override;
  void barrier() override;
  Link& messages() override { return *link_; }

  Link& link() { return *link_; }
  Algorithm algorithm() const { return algorithm_; }

 private:
  std::unique_ptr<Link> link_;
  Algorithm algorithm_;
};

}  // namespace distbelief::comm
