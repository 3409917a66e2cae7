#pragma once

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "distbelief/server/client/client.h"

namespace distbelief::testing {

// The answer to one question.
inline std::optional<std::int64_t> ticket_of(server::Client& client, server::Client::Asked& asked) {
  std::deque<server::Client::Asked> questions;
  questions.push_back(std::move(asked));
  return client.next_ticket(questions);
}

// Pushes a zero gradient for the ticket, so that it counts as done and no value changes.
inline void do_ticket(server::Client& client, std::int64_t ticket) {
  client.push({.ticket = ticket, .lr = 1}, std::vector<float>(client.own().count));
}

}  // namespace distbelief::testing
