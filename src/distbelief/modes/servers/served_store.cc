#include "distbelief/modes/servers/served_store.h"

#include <algorithm>
#include <utility>

#include "distbelief/base/host_name.h"
#include "distbelief/base/parallel_defaults.h"
#include "distbelief/server/scheduler/portion_deals.h"

namespace distbelief::modes {
namespace {

// A portion is computed while the next one's data are read.
constexpr std::size_t kPortionsAhead = 2;

}  // namespace

ServedStore::ServedStore(Options options) : options_(std::move(options)) {}

void ServedStore::open(const Opening& opening) {
  portions_ = opening.portions;
  log_ = server::open_log_of_pushes(options_.log);
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
  client_ =
      std::make_unique<server::Client>(server::Client::Options{.servers = options_.servers,
                                                               .host = host_name(),
                                                               .spec = spec,
                                                               .replica = options_.replica,
                                                               .incarnation = options_.incarnation,
                                                               .deadline = deadline_of(options_.parallel),
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
  settle();
  client_->rest(std::exchange(done_, {}), asked_);
  return std::ranges::count_if(std::exchange(ahead_, {}), [&](std::int64_t ticket) {
    return server::portion_ticket(ticket, portions_).portion < portions_;
  });
}

void ServedStore::ask() { asked_.push_back(client_->ask_ticket(std::exchange(done_, {}))); }

// The servers have the last gradient: its portion is done.
void ServedStore::settle() {
  if (!sending_.handle) return;
  sending_.handle->wait();
  sending_.handle.reset();
  if (log_) log_->append_acknowledged(sending_.portion, client_->answered());
  done_.push_back(sending_.ticket);
}

void ServedStore::note(std::optional<std::int64_t> ticket,
                       const std::function<void(std::int64_t)>& announce) {
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
  while (!ended_) {
    const std::optional<server::Client::Dealt> dealt = client_->ready_ticket(asked_);
    if (!dealt) break;
    note(dealt->ticket, announce);
  }
  if (ahead_.empty() && !ended_) {  // before it waits: others may wait for what this one has done
    settle();
    if (!done_.empty()) client_->tell_done(std::exchange(done_, {}));
  }
  while (!asked_.empty() && !ended_ && ahead_.empty()) note(client_->next_ticket(asked_), announce);
  if (ahead_.empty()) return {};
  at_ = ahead_.front();
  ahead_.pop_front();
  const server::PortionTicket work = server::portion_ticket(at_, portions_);
  const bool is_portion = work.portion < portions_;
  return {.kind = is_portion ? Work::Kind::kPortion : Work::Kind::kCoordinate,
          .evaluation = work.evaluation,
          .portion = work.portion};
}

// Sent while the next portion is computed. That it is done is told with a later question.
void ServedStore::add(const Portion& portion) {
  settle();
  sending_.ticket = at_;
  sending_.portion = portion.evaluation * portions_ + portion.portion;
  sending_.gradient.assign(portion.gradient.begin(), portion.gradient.end());
  sending_.handle.emplace(client_->start_push({.ticket = sending_.portion,
                                               .samples = portion.samples,
                                               .step_samples = portion.batch_samples,
                                               .loss = portion.loss},
                                              sending_.gradient));
  if (asked_.size() + ahead_.size() < kPortionsAhead) ask();
}

// One that has coordinated the evaluation before knows what it came to.
BatchStore::Coordinator ServedStore::coordinator() {
  const server::PortionTicket work = server::portion_ticket(at_, portions_);
  const bool coordinates = at_ >= 0 && work.portion == portions_;
  if (coordinates && known_.evaluation > 0 && known_.evaluation == work.evaluation) return known_;
  server::Client::Coordinator found = client_->coordinator();
  return {.evaluation = found.evaluation, .numbers = std::move(found.numbers), .ends = found.ends};
}

// The next portion is asked for before: it is dealt when the evaluation begins.
void ServedStore::advance(const Coordinator& coordinator) {
  if (asked_.size() + ahead_.size() < kPortionsAhead) ask();
  client_->advance(
      {.evaluation = coordinator.evaluation, .numbers = coordinator.numbers, .ends = coordinator.ends});
  known_ = coordinator;
}

}  // namespace distbelief::modes
