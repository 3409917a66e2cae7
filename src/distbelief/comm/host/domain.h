#pragma once

#include <chrono>
#include <memory>

#include "distbelief/comm/host/segment.h"
#include "distbelief/comm/host/signal.h"

namespace distbelief::comm {

// The members of one host that meet in shared memory: a barrier, the abort record, and their waits. A member
// is a worker or one of its lane threads. Each member uses its own HostDomain object.
class HostDomain {
 public:
  struct Options {
    int member = 0;
    int members = 1;
    int first_rank = 0;  // world rank of member 0; for messages only
    int members_per_rank = 1;
    int rank_stride = 1;  // between the world ranks of two neighbours
    std::chrono::nanoseconds deadline = std::chrono::seconds(120);
  };

  // Bytes that `members` need at `memory`, zeroed before the first of them starts.
  static std::size_t bytes_needed(int members);
  HostDomain(std::byte* memory, Options options);

  int member() const { return options_.member; }
  int members() const { return options_.members; }
  int rank_of(int member) const {
    return options_.first_rank + member / options_.members_per_rank * options_.rank_stride;
  }

  // How members reach a barrier: together, or the first one later, because it talks to other hosts meanwhile
  // and gets more time.
  enum class Arrival { kTogether, kAfterFirst };
  void barrier(const char* operation, std::int64_t step = -1, Arrival arrival = Arrival::kTogether);
  AbortRecord& abort() { return *abort_; }
  const Waiter& waiter() const { return waiter_; }
  // For waits that depend on other hosts through the first member. Members of one host wait one deadline for
  // each other, the first member waits two for other hosts, and this waiter three: the member that knows best
  // who is late times out first.
  const Waiter& patient_waiter() const { return patient_waiter_; }

 private:
  Options options_;
  AbortRecord* abort_;
  Signal* arrivals_;
  std::uint32_t passed_ = 0;
  Waiter waiter_;
  Waiter patient_waiter_;
};

// How long a host waits for another one. Where a host has several members, a wait inside it must time out
// first.
std::chrono::nanoseconds host_deadline(std::chrono::nanoseconds deadline, int largest_host);

// How long it pays to spin before sleeping, for `members` on this machine.
std::chrono::nanoseconds spin_time(int members);

}  // namespace distbelief::comm
