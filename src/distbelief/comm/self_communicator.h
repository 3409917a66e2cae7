#pragma once

#include "distbelief/comm/communicator.h"

namespace distbelief::comm {

// A world of one: every operation is done at once. For programs that need no MPI.
class SelfCommunicator final : public Communicator {
 public:
  SelfCommunicator() : Communicator(0, 1) {}
  void allreduce(View values, ReduceOp op) override { require_reducible(values, op); }
  void reduce_scatter(View values, ReduceOp op) override { require_reducible(values, op); }
  void allgather(View) override {}
  void broadcast(View, int root) override { require_rank(*this, root); }
  void barrier() override {}
  [[noreturn]] Link& messages() override;
};

}  // namespace distbelief::comm
