#include "distbelief/comm/host/domain.h"

#include <thread>

namespace distbelief::comm {

std::chrono::nanoseconds spin_time(int members) {
  // With a core for each, a sleep and wake-up (about 50 us) costs more than the wait; without, a
  // spinner takes the core from the one it waits for.
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return members <= cores ? std::chrono::microseconds(200) : std::chrono::microseconds(0);
}

std::chrono::nanoseconds host_deadline(std::chrono::nanoseconds deadline, int largest_host) {
  return largest_host > 1 ? 2 * deadline : deadline;
}

std::size_t HostDomain::bytes_needed(int members) {
  return sizeof(AbortRecord) + sizeof(Signal) * std::size_t(members);
}

HostDomain::HostDomain(std::byte* memory, Options options)
    : options_(options),
      abort_(reinterpret_cast<AbortRecord*>(memory)),
      arrivals_(reinterpret_cast<Signal*>(memory + sizeof(AbortRecord))),
      waiter_(*abort_, options.deadline, spin_time(options.members), rank_of(options.member)),
      patient_waiter_(*abort_, 3 * options.deadline, spin_time(options.members), rank_of(options.member)) {}

void HostDomain::barrier(const char* operation, std::int64_t step, Arrival arrival) {
  ++passed_;
  arrivals_[options_.member].raise(passed_);
  for (int other = 0; other < options_.members; ++other) {
    if (other == options_.member) continue;
    const bool is_late = other == 0 && arrival == Arrival::kAfterFirst;
    (is_late ? patient_waiter_ : waiter_)
        .wait(arrivals_[other], passed_, {.rank = rank_of(other), .operation = operation, .step = step});
  }
}

}  // namespace distbelief::comm
