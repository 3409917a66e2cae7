#include "distbelief/modes/servers/ticket_queue.h"

#include <algorithm>

namespace distbelief::modes {
namespace {

constexpr std::size_t kTicketsAhead = 2;

}  // namespace

void TicketQueue::begin() {
  const std::size_t questions = is_one_by_one() ? 1 : kTicketsAhead;
  for (std::size_t i = 0; i < questions && !ended_; ++i) ask();
}

void TicketQueue::note(std::optional<std::int64_t> ticket, const Announce& announce) {
  if (!ticket) {
    ended_ = true;
    return;
  }
  const std::int64_t first = options_.first_step + *ticket * options_.steps_each;
  for (std::int64_t step = first; step < std::min(first + options_.steps_each, options_.steps); ++step) {
    ahead_.push_back(step);
    announce(step);
  }
}

// Questions may come to the dealer in any order, and so may its answers. So there is one at a time, and a
// ticket that is done while one is under way is told by itself.
void TicketQueue::note_one_by_one(const Announce& announce) {
  const auto ask_again = [this] {
    if (!ended_ && asked_.empty() && ahead_.size() < kTicketsAhead) ask();
  };
  for (ask_again(); !ended_; ask_again()) {
    const std::optional<server::Client::Dealt> dealt = options_.client->ready_ticket(asked_);
    if (!dealt) break;
    note(dealt->ticket, announce);
  }
  if (!done_.empty() && !ended_) options_.client->tell_done(take_done());
  for (; ahead_.empty() && !ended_; ask_again()) note(options_.client->next_ticket(asked_), announce);
}

// The last tickets that are asked for wait until all work is done, so what is done is told before.
std::optional<std::int64_t> TicketQueue::take(const Announce& announce) {
  if (is_one_by_one())
    note_one_by_one(announce);
  else
    while (!asked_.empty() && !ended_ && (ahead_.empty() || asked_.front().ready()))
      note(options_.client->next_ticket(asked_), announce);
  if (ahead_.empty()) return std::nullopt;
  const std::int64_t step = ahead_.front();
  ahead_.pop_front();
  return step;
}

void TicketQueue::finish(std::int64_t ticket) {
  done_.push_back(ticket);
  if (!is_one_by_one()) ask();
}

void TicketQueue::skip() {
  if (!is_one_by_one()) ask();
}

std::int64_t TicketQueue::rest() {
  options_.client->rest(take_done(), asked_);
  return std::int64_t(std::exchange(ahead_, {}).size());
}

}  // namespace distbelief::modes
