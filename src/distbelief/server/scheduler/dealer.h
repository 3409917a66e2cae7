#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "distbelief/server/scheduler/ticket_set.h"

namespace distbelief::server {

// Deals out the work of a run (S3.6): each ticket goes to one replica, and comes back to be dealt again when
// that replica is lost before it is done. Also keeps the replicas' clocks, for those who may not run ahead.
// Decides only: who waits for an answer is the caller's. Not thread safe.
class Dealer {
 public:
  struct Options {
    std::int64_t tickets = 0;
    std::optional<std::int64_t> staleness{};  // nothing: everyone runs at his own pace
    bool is_open_ended = false;               // there may be more tickets, until close()
    bool waits_for_offers = false;            // a ticket is dealt when it was offered, not in their order
  };
  explicit Dealer(const Options& options)
      : options_(options),
        next_(options.waits_for_offers ? options.tickets : 0) {}

  // A replica that comes starts where the slowest is. One that was there and comes again has lost its
  // tickets.
  // `clock`: what it counted before, with another dealer; nothing: it has just come.
  void join(int replica, std::optional<std::int64_t> clock = {});
  // Its tickets go to others; nobody waits for it. Nothing when it is not there.
  void leave(int replica);
  bool has(int replica) const { return clocks_.contains(replica); }

  // The next ticket; nothing while all are dealt or done.
  std::optional<std::int64_t> take(int replica);
  // A step of this replica. false: the ticket was done before, by whomever it was dealt to as well, or has
  // not been dealt yet and is going to be.
  bool done(int replica, std::int64_t ticket);
  // When there is none left: the last one below this that another has, and nobody else, for a replica that
  // has nothing to do; the other has most likely not begun it. Whoever is first counts. One that seems to be
  // done comes after all others: who had it may never say so.
  std::optional<std::int64_t> take_copy(int replica, std::int64_t below,
                                        const std::function<bool(std::int64_t)>& seems_done);
  // What this ticket waited for is there. Nothing when somebody has it or it is done.
  void offer(std::int64_t ticket);
  // Tickets up to this one can be dealt (open-ended).
  void extend(std::int64_t tickets) { options_.tickets = std::max(options_.tickets, tickets); }
  void close() { options_.is_open_ended = false; }
  // All are done.
  bool is_drained() const { return !options_.is_open_ended && done_.size() >= options_.tickets; }

  // Whether it may begin another step: it is no more than `staleness` ahead of the slowest that has work.
  bool may_begin(int replica) const;
  void set_clock(int replica, std::int64_t steps);
  std::int64_t clock(int replica) const;  // steps done, counted from the slowest's when it came
  std::int64_t slowest() const;
  std::vector<int> replicas() const;

  // For who is to take over: tickets below `next` were dealt, those below `below` and in these ranges are
  // done.
  std::int64_t next() const { return next_; }
  const TicketSet& done_tickets() const { return done_; }
  void learn(std::int64_t next, std::int64_t below, const std::vector<std::int64_t>& ranges);
  // What a replica counted when the other dealer last heard of it; nothing: it has left.
  void learn_clock(int replica, std::optional<std::int64_t> steps);
  // It takes over: what was dealt and is not done is dealt again, or has to be offered again. Whoever has it
  // meanwhile does it in vain, or is first. Replicas are taken to be where they were, until they say more.
  void take_over();

 private:
  bool holds_tickets(int replica) const;

  struct Clock {
    std::int64_t steps = 0;
    bool asked_in_vain = false;  // there was no ticket for it
  };

  Options options_;
  std::int64_t next_ = 0;
  std::set<std::int64_t> returned_;      // dealt, and come back
  std::map<std::int64_t, int> holders_;  // of tickets that are under way
  std::map<std::int64_t, int> copies_;   // holders of second copies
  TicketSet done_;
  std::map<int, Clock> clocks_;
};

}  // namespace distbelief::server
