#include "distbelief/server/scheduler/dealer.h"

#include <algorithm>
#include <limits>

namespace distbelief::server {

void Dealer::join(int replica, std::optional<std::int64_t> clock) {
  leave(replica);
  const std::int64_t start = clock ? *clock : clocks_.empty() ? 0 : slowest();
  clocks_[replica] = {.steps = start, .asked_in_vain = false};
}

void Dealer::leave(int replica) {
  clocks_.erase(replica);
  std::erase_if(copies_, [&](const auto& copy) { return copy.second == replica; });
  for (auto held = holders_.begin(); held != holders_.end();) {
    if (held->second != replica) {
      ++held;
      continue;
    }
    const auto copy = copies_.find(held->first);
    if (copy == copies_.end()) {
      returned_.insert(held->first);
      held = holders_.erase(held);
    } else {  // the holder of the copy now has the ticket
      held->second = copy->second;
      copies_.erase(copy);
      ++held;
    }
  }
}

std::optional<std::int64_t> Dealer::take(int replica) {
  std::optional<std::int64_t> ticket;
  if (!returned_.empty()) {
    ticket = *returned_.begin();
    returned_.erase(returned_.begin());
  } else if (next_ < options_.tickets) {
    ticket = next_++;
  }
  clocks_.at(replica).asked_in_vain = !ticket;
  if (ticket) holders_[*ticket] = replica;
  return ticket;
}

std::optional<std::int64_t> Dealer::take_copy(int replica, std::int64_t below,
                                              const std::function<bool(std::int64_t)>& seems_done) {
  if (holds_tickets(replica)) return std::nullopt;
  for (const bool done : {false, true})
    for (auto held = holders_.lower_bound(below); held != holders_.begin();) {
      --held;
      if (copies_.contains(held->first) || seems_done(held->first) != done) continue;
      copies_[held->first] = replica;
      return held->first;
    }
  return std::nullopt;
}

void Dealer::offer(std::int64_t ticket) {
  if (!done_.contains(ticket) && !holders_.contains(ticket)) returned_.insert(ticket);
}

bool Dealer::done(int replica, std::int64_t ticket) {
  if (ticket >= next_) return false;
  if (const auto found = clocks_.find(replica); found != clocks_.end()) ++found->second.steps;
  if (!done_.insert(ticket)) return false;
  holders_.erase(ticket);
  copies_.erase(ticket);
  returned_.erase(ticket);
  return true;
}

void Dealer::learn(std::int64_t next, std::int64_t below, const std::vector<std::int64_t>& ranges) {
  next_ = std::max(next_, std::min(next, options_.tickets));
  done_.insert(0, below);
  for (std::size_t i = 0; i + 1 < ranges.size(); i += 2) done_.insert(ranges[i], ranges[i + 1]);
  const auto is_done = [&](const auto& held) { return done_.contains(held.first); };
  std::erase_if(holders_, is_done);
  std::erase_if(copies_, is_done);
  std::erase_if(returned_, [&](std::int64_t ticket) { return done_.contains(ticket); });
}

void Dealer::learn_clock(int replica, std::optional<std::int64_t> steps) {
  if (steps)
    clocks_[replica] = {.steps = *steps, .asked_in_vain = false};
  else
    clocks_.erase(replica);
}

std::vector<int> Dealer::replicas() const {
  std::vector<int> all;
  for (const auto& [replica, clock] : clocks_) all.push_back(replica);
  return all;
}

void Dealer::take_over() {
  for (auto& [replica, clock] : clocks_) clock.asked_in_vain = false;
  holders_.clear();
  copies_.clear();
  returned_.clear();
  if (options_.waits_for_offers) return;
  for (std::int64_t ticket = done_.below(); ticket < next_; ++ticket)
    if (!done_.contains(ticket)) returned_.insert(ticket);
}

void Dealer::set_clock(int replica, std::int64_t steps) {
  if (const auto found = clocks_.find(replica); found != clocks_.end()) found->second.steps = steps;
}

std::int64_t Dealer::clock(int replica) const {
  const auto found = clocks_.find(replica);
  return found == clocks_.end() ? 0 : found->second.steps;
}

bool Dealer::holds_tickets(int replica) const {
  const auto is_its = [&](const auto& held) { return held.second == replica; };
  return std::ranges::any_of(holders_, is_its) || std::ranges::any_of(copies_, is_its);
}

// Counts replicas with work: one that waits for a ticket must not hold the others up.
std::int64_t Dealer::slowest() const {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const auto& [replica, clock] : clocks_)
    if (!clock.asked_in_vain || holds_tickets(replica)) least = std::min(least, clock.steps);
  if (least != std::numeric_limits<std::int64_t>::max()) return least;
  for (const auto& [replica, clock] : clocks_) least = std::min(least, clock.steps);
  return clocks_.empty() ? 0 : least;
}

bool Dealer::may_begin(int replica) const {
  return !options_.staleness || clock(replica) - slowest() <= *options_.staleness;
}

}  // namespace distbelief::server
