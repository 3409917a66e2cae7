#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "distbelief/server/scheduler/ticket_set.h"

namespace distbelief::server {

// Assigns the tickets of a run to replicas. Each ticket goes to one replica, and is assigned again when that
// replica is lost before the ticket is done. Also keeps the replicas' clocks, for the staleness bound. It
// only decides; the caller keeps the replicas that wait. Not thread safe.
class Dealer {
 public:
  struct Options {
    std::int64_t tickets = 0;
    std::optional<std::int64_t> staleness{};  // nothing: no bound
    bool is_open_ended = false;               // more tickets may come, until close()
    bool waits_for_offers = false;            // tickets are assigned when offered, not in their order
  };
  explicit Dealer(const Options& options)
      : options_(options),
        next_(options.waits_for_offers ? options.tickets : 0) {}

  // A new replica starts with the clock of the slowest. One that was there and rejoins loses its tickets.
  // `clock`: its clock at an earlier dealer; nothing: it is new.
  void join(int replica, std::optional<std::int64_t> clock = {});
  // Its tickets go to others, and no replica waits for it. Does nothing when it is not there.
  void leave(int replica);
  bool has(int replica) const { return clocks_.contains(replica); }

  // Returns the next ticket; nothing while all are dealt or done.
  std::optional<std::int64_t> take(int replica);
  // Counts a step of this replica. Returns false when the ticket was already done, by any replica, or has not
  // been dealt yet and still will be.
  bool done(int replica, std::int64_t ticket);
  // For an idle replica when no tickets are left: a second copy of the last ticket below `below` that one
  // other replica holds and has most likely not begun. The first to finish counts. Tickets for which
  // `seems_done` holds come last: their holder may never report them.
  std::optional<std::int64_t> take_copy(int replica, std::int64_t below,
                                        const std::function<bool(std::int64_t)>& seems_done);
  // The input of this ticket has come. Does nothing when the ticket is assigned or done.
  void offer(std::int64_t ticket);
  // Tickets below `tickets` can be dealt (open-ended).
  void extend(std::int64_t tickets) { options_.tickets = std::max(options_.tickets, tickets); }
  void close() { options_.is_open_ended = false; }
  // All tickets are done.
  bool is_drained() const { return !options_.is_open_ended && done_.size() >= options_.tickets; }

  // Whether the replica may begin another step: it is at most `staleness` ahead of the slowest that has work.
  bool may_begin(int replica) const;
  void set_clock(int replica, std::int64_t steps);
  std::int64_t clock(int replica) const;  // steps done; a new replica starts with the slowest's
  std::int64_t slowest() const;
  std::vector<int> replicas() const;

  // For a dealer that is to take over: tickets below `next` were dealt; those below `below` and in these
  // ranges are done.
  std::int64_t next() const { return next_; }
  const TicketSet& done_tickets() const { return done_; }
  void learn(std::int64_t next, std::int64_t below, const std::vector<std::int64_t>& ranges);
  // A replica's clock as the other dealer last knew it; nothing: it has left.
  void learn_clock(int replica, std::optional<std::int64_t> steps);
  // This dealer takes over: tickets that were dealt and are not done are dealt again, or have to be offered
  // again. A replica that still holds one does it in vain, or finishes first. Replicas keep their known
  // clocks until they report more.
  void take_over();

 private:
  bool holds_tickets(int replica) const;

  struct Clock {
    std::int64_t steps = 0;
    bool asked_in_vain = false;  // no ticket was left for it
  };

  Options options_;
  std::int64_t next_ = 0;
  std::set<std::int64_t> returned_;      // dealt, and returned
  std::map<std::int64_t, int> holders_;  // of tickets being worked on
  std::map<std::int64_t, int> copies_;   // holders of second copies
  TicketSet done_;
  std::map<int, Clock> clocks_;
};

}  // namespace distbelief::server
