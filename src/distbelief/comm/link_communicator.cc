#include "distbelief/comm/link_communicator.h"

#include "distbelief/comm/algorithms.h"

namespace distbelief::comm {

LinkCommunicator::LinkCommunicator(std::unique_ptr<Link> link, Algorithm algorithm)
    : Communicator(link->rank(), link->size()),
      link_(std::move(link)),
      algorithm_(algorithm) {}

void LinkCommunicator::allreduce(View values, ReduceOp op) {
  if (algorithm_ == Algorithm::kCentral) {
    require_reducible(values, op);
    central_reduce(*link_, values);
    if (rank() == 0) finish_mean(values, op, size());
    comm::broadcast(*link_, values, 0);
    return;
  }
  reduce_scatter(values, op);
  allgather(values);
}

void LinkCommunicator::reduce_scatter(View values, ReduceOp op) {
  require_reducible(values, op);
  if (algorithm_ == Algorithm::kRing) {
    ring_reduce_scatter(*link_, values, even_parts(values.count, size()));
  } else if (algorithm_ == Algorithm::kDirect) {
    direct_reduce_scatter(*link_, values, even_parts(values.count, size()));
  } else {
    central_reduce(*link_, values);
    comm::broadcast(*link_, values, 0);
  }
  const Part own = part_of(values.count, size(), rank());
  finish_mean(values.part(own.begin, own.end), op, size());
}

void LinkCommunicator::allgather(View values) {
  if (algorithm_ == Algorithm::kRing)
    ring_allgather(*link_, values, even_parts(values.count, size()));
  else
    direct_allgather(*link_, values, even_parts(values.count, size()));
}

void LinkCommunicator::broadcast(View values, int root) {
  require_rank(*this, root);
  comm::broadcast(*link_, values, root);
}

void LinkCommunicator::barrier() { comm::barrier(*link_); }

}  // namespace distbelief::comm
