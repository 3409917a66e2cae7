#include "distbelief/server/scheduler/freshness.h"

#include <utility>

namespace distbelief::server {

bool Freshness::begin(int replica, std::int64_t ticket, std::int64_t below, const Clocks& clocks) {
  Begun& begun = begun_[replica];
  if (ticket != begun.ticket) begun.before = std::move(begun.clocks);
  begun.ticket = ticket;
  begun.clocks = clocks;
  for (const auto& [other, clock] : clocks) {
    if (other == replica) continue;
    const auto found = begun.before.find(other);
    const std::int64_t done = found == begun.before.end() ? 0 : found->second;
    if (done < clock && done < below) return true;
  }
  return false;
}

void Freshness::forget(int replica) {
  begun_.erase(replica);
  for (auto& [other, begun] : begun_) {
    begun.clocks.erase(replica);
    begun.before.erase(replica);
  }
}

}  // namespace distbelief::server
