#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "distbelief/server/client.h"

namespace distbelief::server {

// The answer to one question, for tests.
inline std::optional<std::int64_t> ticket_of(Client& client, Client::Asked& asked) {
  std::deque<Client::Asked> questions;
  questions.push_back(std::move(asked));
  return client.next_ticket(questions);
}

}  // namespace distbelief::server
