#include "distbelief/train/served_store.h"

#include <algorithm>
#include <utility>

#include "distbelief/base/host_name.h"
#include "distbelief/server/portion_deals.h"

namespace distbelief::train {
namespace {

// A portion is computed while the next one's data are read.
constexpr std::size_t kPortionsAhead = 2;

}  // namespace

ServedStore::ServedStore(Options options) : options_(std::move(options)) {}

void ServedStore::open(const Opening& opening) {
  portions_ = opening.portions;
  comm::SpaceSpec spec;
  spec.job = options_.job;
  spec.elements = opening.point.size();
  spec.mode = "sandblaster";
  spec.tickets = opening.evaluations * (portions_ + 1);
  spec.portions = portions_;
  spec.vectors = opening.vectors;
  spec.optimizer.momentum = 0;  // plain sgd keeps no state; commands change the parameters
  for (const auto& [begin, count] : opening.parameters)
    spec.parameters.push_back({.begin = begin, .count = count});
  client_ = std::make_unique<server::Client>(
      server::Client::Options{
          .servers = options_.servers,
          .host = host_name(),
          .spec = spec,
          .replica = options_.replica,
          .incarnation = options_.incarnation,
          .deadline = std::chrono::milliseconds(std::int64_t(1e3 * options_.parallel.deadline_seconds)),
          .goes_on = options_.goes_on,
          .find_servers = options_.find_servers},
      opening.point.data());
  wake();
}

void ServedStore::wake() {
  for (std::size_t i = 0; i < kPortionsAhead && !ended_; ++i) ask();
}

// The coordinator's ticket, which everyone would wait for, was not announced.
std::optional<std::int64_t> ServedStore::rest() {
  client_->rest(std::exchange(done_, {}), asked_);
  return std::ranges::count_if(std::exchange(ahead_, {}), [&](std::int64_t ticket) {
    return server::portion_ticket(ticket, portions_).portion < portions_;
  });
}

void ServedStore::ask() { asked_.push_back(client_->ask_ticket(std::exchange(done_, {}))); }

void ServedStore::note_answer(const std::function<void(std::int64_t)>& announce) {
  const std::optional<std::int64_t> ticket = client_->next_ticket(asked_);
  if (!ticket) {
    ended_ = true;
    return;
  }
  const server::PortionTicket work = server::portion_ticket(*ticket, portions_);
  // Everyone waits for the coordinator.
  if (work.portion == portions_) return ahead_.push_front(*ticket);
  ahead_.push_back(*ticket);
  announce(work.portion);
}

BatchStore::Work ServedStore::next(const std::function<void(std::int64_t)>& announce) {
  // Whoever works on a ticket is done with it when he asks for the next, and says so before.
  while (!asked_.empty() && !ended_ && (ahead_.empty() || asked_.front().ready())) note_answer(announce);
  if (ahead_.empty()) return {};
  at_ = ahead_.front();
  ahead_.pop_front();
  const server::PortionTicket work = server::portion_ticket(at_, portions_);
  const bool is_portion = work.portion < portions_;
  return {.kind = is_portion ? Work::Kind::kPortion : Work::Kind::kCoordinate,
          .evaluation = work.evaluation,
          .portion = work.portion};
}

void ServedStore::add(const Portion& portion) {
  client_->push_pull({.ticket = portion.evaluation * portions_ + portion.portion,
                      .samples = portion.samples,
                      .step_samples = portion.batch_samples,
                      .loss = portion.loss},
                     portion.gradient, {});
  done_.push_back(at_);
  ask();
}

BatchStore::Coordinator ServedStore::coordinator() {
  server::Client::Coordinator found = client_->coordinator();
  return {.evaluation = found.evaluation, .numbers = std::move(found.numbers), .ends = found.ends};
}

void ServedStore::advance(const Coordinator& coordinator) {
  client_->advance(
      {.evaluation = coordinator.evaluation, .numbers = coordinator.numbers, .ends = coordinator.ends});
  done_.push_back(at_);
  ask();
}

}  // namespace distbelief::train
