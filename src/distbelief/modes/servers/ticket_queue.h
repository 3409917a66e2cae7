#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "distbelief/server/client/client.h"

namespace distbelief::modes {

struct TicketQueueOptions {
  server::Client* client = nullptr;  // borrowed
  std::int64_t first_step = 0;       // of the servers' first ticket
  std::int64_t steps_each = 1;       // of a ticket
  std::int64_t steps = 0;            // of the run
  enum class Order {
    kAsAnswered,  // questions are answered in any order
    kOneByOne,    // one question at a time, for a result that does not depend on how fast answers come
  } order = Order::kAsAnswered;
};

// The steps that servers deal out to a replica, asked for one ticket ahead: a ticket is computed while the
// next one's data are read. Used by the training thread of the replica's first worker.
class TicketQueue {
 public:
  explicit TicketQueue(const TicketQueueOptions& options) : options_(options) {}

  using Announce = std::function<void(std::int64_t step)>;
  // Asks for the first tickets, or again after rest().
  void begin();
  // The next step, and `announce` hears of steps that have become known. Nothing: all work is done, by all
  // replicas. Waits as long as it takes.
  std::optional<std::int64_t> take(const Announce& announce);
  // The servers have everything of that ticket. They are told with the next question, or by tell_done().
  void finish(std::int64_t ticket);
  // Tickets that are done and not told, for a message that tells it.
  std::vector<std::int64_t> take_done() { return std::exchange(done_, {}); }
  // Another replica has done the step that take() gave.
  void skip();
  // Gives back what is not begun; the steps of a ticket that it had begun count for nothing. Gives how many
  // announced steps will not come.
  std::int64_t rest();

 private:
  bool is_one_by_one() const { return options_.order == TicketQueueOptions::Order::kOneByOne; }
  void ask() { asked_.push_back(options_.client->ask_ticket(take_done())); }
  void note(std::optional<std::int64_t> ticket, const Announce& announce);
  void note_one_by_one(const Announce& announce);

  TicketQueueOptions options_;
  std::deque<server::Client::Asked> asked_;
  std::deque<std::int64_t> ahead_;  // steps of tickets that are here
  std::vector<std::int64_t> done_;  // tickets that the servers have not been told of
  bool ended_ = false;              // there are no more
};

}  // namespace distbelief::modes
