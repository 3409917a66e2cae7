#include <algorithm>
#include <thread>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/server/client/client.h"
#include "distbelief/server/client/client_connection.h"

// The replica's side of the ticket scheduler: its next work, and its finished work.
namespace distbelief::server {

using comm::StoreAnswer;

namespace {

constexpr std::chrono::microseconds kLookForAnswers{50};

}  // namespace

Client::Asked Client::ask_ticket(const std::vector<std::int64_t>& done) {
  Part part{.message = message(Kind::kTake)};
  part.message.done = done;
  if (clock_ >= 0) clock_ += std::int64_t(done.size());
  Asked asked;
  asked.message_ = part.message;
  try {
    asked.pending_ = send(part).pending;
    asked.is_sent_ = true;
  } catch (const Error& error) {  // asked again when it is waited for
    if (!is_worth_another_try(error)) throw;
  }
  return asked;
}

void Client::ask_again(std::deque<Asked>& asked) {
  if (std::ranges::all_of(asked, &Asked::is_sent_)) return;
  if (!look_for_map()) std::this_thread::sleep_for(kLookAgain);
  for (Asked& one : asked) {
    if (one.is_sent_) continue;
    Part part{.message = one.message_};
    try {
      one.pending_ = send(part).pending;
      one.is_sent_ = true;
    } catch (const Error& error) {
      if (!is_worth_another_try(error)) throw;
    }
  }
}

std::optional<Client::Dealt> Client::ready_ticket(std::deque<Asked>& asked) {
  for (auto one = asked.begin(); one != asked.end(); ++one) {
    if (!one->is_sent_ || !one->pending_.ready()) continue;
    one->is_sent_ = false;
    try {
      const StoreAnswer answer = comm::decode_answer(await(one->pending_, options_.deadline).header);
      asked.erase(one);
      if (clock_ < 0) clock_ = answer.clock;
      if (answer.outcome == StoreAnswer::Outcome::kEnd) return Dealt{};
      return Dealt{.ticket = answer.ticket};
    } catch (const Error& error) {
      if (!is_worth_another_try(error)) throw;
    }
  }
  return std::nullopt;
}

// Waits however long the others take with the remaining work.
std::optional<std::int64_t> Client::next_ticket(std::deque<Asked>& asked) {
  heard_ = Clock::now();
  for (;; std::this_thread::sleep_for(kLookForAnswers)) {
    if (const std::optional<Dealt> dealt = ready_ticket(asked)) return dealt->ticket;
    ask_again(asked);
    require_going_on();
  }
}

void Client::tell_done(const std::vector<std::int64_t>& done) {
  Part part{.message = message(Kind::kTell)};
  part.message.done = done;
  if (clock_ >= 0) clock_ += std::int64_t(done.size());
  exchange_one(std::move(part), options_.deadline);
}

bool Client::begin_step(std::int64_t ticket, const std::vector<std::int64_t>& done) {
  Part part{.message = message(Kind::kBegin)};
  part.message.ticket = ticket;
  part.message.done = done;
  if (clock_ >= 0) clock_ += std::int64_t(done.size());
  return exchange_one(std::move(part), kForEver).outcome == StoreAnswer::Outcome::kStale;
}

// Messages of one connection may be handled in any order, and a ticket request handled after the leave would
// join again. So the leave is repeated when all requests are answered, with a ticket or without one.
void Client::rest(std::vector<std::int64_t> done, std::deque<Asked>& asked) {
  for (const Asked& one : asked) done.insert(done.end(), one.message_.done.begin(), one.message_.done.end());
  const auto is_open = [](const Asked& one) { return one.is_sent_ && !one.pending_.ready(); };
  for (bool last = false; !last;) {
    last = std::ranges::none_of(asked, is_open);
    Part part{.message = message(Kind::kLeave)};
    part.message.done = done;
    exchange_one(std::move(part), options_.deadline);
    if (!last) std::this_thread::sleep_for(kLookForAnswers);
  }
  asked.clear();
  clock_ = -1;
}

}  // namespace distbelief::server
