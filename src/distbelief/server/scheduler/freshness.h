#pragma once

#include <cstdint>
#include <map>

namespace distbelief::server {

// Decides whether a replica's last fetch has all updates that its next step must see (bounded; Ho et al.,
// More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server, 2013: at clock c all
// updates of clocks below c - s). A replica fetches after it began its last step, so it has at least the
// updates that others had done by then. Not thread safe.
class Freshness {
 public:
  using Clocks = std::map<int, std::int64_t>;  // by replica

  // The replica begins this ticket's step, which must see the steps of others with clocks below `below`;
  // `clocks` are the steps that each has done. Returns whether its fetch may lack some. A repeated call for
  // the same ticket, whose answer was lost, counts as the first: the replica has fetched nothing since.
  bool begin(int replica, std::int64_t ticket, std::int64_t below, const Clocks& clocks);
  // The replica has joined or left: its clock may differ.
  void forget(int replica);

 private:
  struct Begun {
    std::int64_t ticket = -1;
    Clocks clocks{}, before{};  // at the begin of this ticket, and of the one before
  };
  std::map<int, Begun> begun_;  // by replica
};

}  // namespace distbelief::server
