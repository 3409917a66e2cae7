#pragma once

#include <cstdint>
#include <map>

namespace distbelief::server {

// Whether what a replica fetched has all that its next step has to see (bounded; Ho et al., More Effective
// Distributed ML via a Stale Synchronous Parallel Parameter Server, 2013: at clock c all updates of clocks
// below c - s). A replica fetches after it began its last step, so that it has at least what others had done
// by then. Not thread safe.
class Freshness {
 public:
  using Clocks = std::map<int, std::int64_t>;  // by replica

  // It begins this ticket's step, which has to see those of others with clocks below `below`; `clocks` are
  // the steps that each has done. Gives whether there are some that it may not have. Asked again for the same
  // ticket, whose answer was lost: it has fetched nothing since it first asked.
  bool begin(int replica, std::int64_t ticket, std::int64_t below, const Clocks& clocks);
  // It has come, or left: its clock may be another.
  void forget(int replica);

 private:
  struct Begun {
    std::int64_t ticket = -1;
    Clocks clocks{}, before{};  // when it began this one, and the one before
  };
  std::map<int, Begun> begun_;  // by replica
};

}  // namespace distbelief::server
