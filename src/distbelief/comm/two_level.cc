#include "distbelief/comm/two_level.h"

namespace distbelief::comm {

TwoLevelCommunicator::TwoLevelCommunicator(Options options)
    : Communicator(options.world->rank(), options.world->size()),
      options_(std::move(options)) {}

int TwoLevelCommunicator::host_of(int rank) const {
  int host = 0;
  for (int first = options_.ranks_per_host[0]; rank >= first;
       first += options_.ranks_per_host[std::size_t(host)])
    ++host;
  return host;
}

void TwoLevelCommunicator::allreduce(View values, ReduceOp op) {
  require_reducible(values, op);
  options_.host->allreduce(values, ReduceOp::kSum);
  if (options_.leaders != nullptr) options_.leaders->allreduce(values, ReduceOp::kSum);
  options_.host->broadcast_after_first(values);
  finish_mean(values, op, size());
}

void TwoLevelCommunicator::allgather(View values) {
  for (int local = 0; local < options_.host->size(); ++local) {
    const Part part = part_of(values.count, size(), options_.first_rank + local);
    options_.host->broadcast(values.part(part.begin, part.end), local);
  }
  for (int host = 0, rank = 0; host < int(options_.ranks_per_host.size()); ++host) {
    const int end = rank + options_.ranks_per_host[std::size_t(host)];
    const View block =
        values.part(part_of(values.count, size(), rank).begin, part_of(values.count, size(), end - 1).end);
    if (options_.leaders != nullptr) options_.leaders->broadcast(block, host);
    rank = end;
  }
  options_.host->broadcast_after_first(values);
}

void TwoLevelCommunicator::broadcast(View values, int root) {
  require_rank(*this, root);
  const int root_host = host_of(root);
  if (root_host == host_of(rank())) options_.host->broadcast(values, root - options_.first_rank);
  if (options_.leaders != nullptr) options_.leaders->broadcast(values, root_host);
  if (root_host != host_of(rank())) options_.host->broadcast_after_first(values);
}

void TwoLevelCommunicator::barrier() {
  options_.host->barrier();
  if (options_.leaders != nullptr) options_.leaders->barrier();
  options_.host->barrier_after_first();
}

}  // namespace distbelief::comm
