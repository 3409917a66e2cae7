#include <fmt/format.h>

#include <chrono>
#include <limits>

#include "distbelief/base/error.h"
#include "distbelief/compute/lbfgs.h"
#include "distbelief/server/scheduler/portion_deals.h"
#include "distbelief/server/service/space.h"
#include "distbelief/server/service/space_requests.h"

// A job state with vectors (sandblaster): evaluations, whose portions are dealt out and summed, and the
// coordinator's commands. The ticket scheduler keeps the coordinator's state between two evaluations, so that
// any replica can continue from it.
namespace distbelief::server {

using comm::StoreAnswer;
using comm::StoreRequest;
using Kind = comm::StoreRequest::Kind;

namespace {

std::int64_t history_of(const comm::SpaceSpec& spec) { return (spec.vectors - compute::kFirstPair) / 2; }

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

StoreAnswer::Outcome outcome_of(bool repeated) {
  return repeated ? StoreAnswer::Outcome::kRepeated : StoreAnswer::Outcome::kDone;
}

// Reads a portion's message, without the payload. At a distant point a loss may be infinite, but never below
// all others.
compute::VectorSlice::Portion portion_in(const StoreRequest& message, std::int64_t portions,
                                         const float* values) {
  const bool is_loss = message.loss > -std::numeric_limits<double>::infinity();  // nor NaN
  if (message.samples < 1 || message.samples > message.step_samples || !is_loss)
    throw Error(ErrorCode::kBadInput, fmt::format("a portion with {} samples of {} and the loss {}",
                                                  message.samples, message.step_samples, message.loss));
  return {.evaluation = message.ticket / portions,
          .portion = message.ticket % portions,
          .weight = double(message.samples) / double(message.step_samples),
          .loss = message.loss,
          .values = values};
}

}  // namespace

void Space::push_portion(Held& held, const StoreRequest& message, Request& request) {
  const std::lock_guard lock(held.mutex);
  require_primary(message.slice);
  const compute::VectorSlice::Portion portion =
      portion_in(message, options_.spec.portions, floats_in(request).data());
  require_sum(held, portion);
  const Slice::Applied applied = held.slice.add(message.ticket, message.replica, portion);
  note_own_work(request.peer().connection, message.ticket, applied.repeated);
  const std::shared_ptr<const Roles> now = roles();
  const auto links = now->backups(now->map.part_of(held.slice.number()), held.filled);
  const auto kept = std::make_shared<Waiting>(Waiting{.message = message, .request = std::move(request)});
  BackupLink::Item item;
  if (!applied.repeated && !links.empty()) {
    StoreRequest told = message;
    told.kind = Kind::kReplicate;
    told.job = options_.spec.job;
    told.version = applied.version;
    told.epoch = now->map.epoch;
    item = {.header = comm::encode(told), .payload = kept->request.payload(), .owner = kept};
  }
  tell_all(links, item, [self = shared_from_this(), kept, applied] {
    answer(kept->request, {.outcome = outcome_of(applied.repeated),
                           .version = applied.version,
                           .epoch = self->roles()->map.epoch});
  });
}

void Space::command(const StoreRequest& message, Request& request) {
  if (options_.spec.vectors == 0)
    throw Error(ErrorCode::kBadInput, fmt::format("job {} takes no commands", options_.spec.job));
  Held& target = held_as_primary(message.slice);
  if (!target.slice.is_filled())
    throw Error(ErrorCode::kBadInput,
                fmt::format("slice {} of job {} has no first values yet", message.slice, options_.spec.job));
  const std::lock_guard lock(target.mutex);
  require_primary(message.slice);
  const Slice::Ran ran = target.slice.run(message.sequence, message.operations);
  const std::shared_ptr<const Roles> now = roles();
  const auto links = now->backups(now->map.part_of(message.slice), target.filled);
  BackupLink::Item item;
  if (!ran.repeated && !links.empty())
    item.header = comm::encode(StoreRequest{.kind = Kind::kReplicateCommand,
                                            .replica = message.replica,
                                            .slice = message.slice,
                                            .job = options_.spec.job,
                                            .version = ran.version,
                                            .epoch = now->map.epoch,
                                            .operations = message.operations,
                                            .sequence = message.sequence});
  const auto kept = std::make_shared<Request>(std::move(request));
  tell_all(links, item, [self = shared_from_this(), kept, ran] {
    answer(*kept, {.outcome = outcome_of(ran.repeated),
                   .version = ran.version,
                   .epoch = self->roles()->map.epoch,
                   .numbers = ran.numbers});
  });
}

// Repeats the primary's operation.
void Space::replay(Held& held, Waiting& waiting) {
  const StoreRequest& message = waiting.message;
  if (message.kind == Kind::kReplicateCommand)
    held.slice.run(message.sequence, message.operations);
  else
    held.slice.add(message.ticket, message.replica,
                   portion_in(message, options_.spec.portions, floats_in(waiting.request).data()));
}

// The caller holds the scheduler's lock.
std::optional<std::int64_t> Space::take_portion(int replica) {
  const std::int64_t portions = options_.spec.portions;
  const std::int64_t below = dealer_.done_tickets().below();
  if (!coordinator_.ends) dealer_.extend(dealable(below, portions));
  if (const auto ticket = dealer_.take(replica)) return ticket;
  const std::int64_t evaluation = portion_ticket(below, portions).evaluation;
  // A replica reports a portion only with its next request; the gradient is here before that.
  return dealer_.take_copy(replica, coordinator_ticket(evaluation, portions),
                           [&](std::int64_t ticket) { return has_gradient(ticket); });
}

void Space::give_coordinator(const StoreRequest&, Request& request) {
  const std::lock_guard lock(desk_);
  require_desk();
  answer(request, {.outcome = coordinator_.ends ? StoreAnswer::Outcome::kEnd : StoreAnswer::Outcome::kDone,
                   .version = coordinator_.evaluation,
                   .numbers = coordinator_.numbers});
}

// The caller holds the scheduler's lock. Throws when the message does not follow the present state.
void Space::take_coordinator(const StoreRequest& message) {
  const bool is_possible = options_.spec.vectors > 0 && message.ticket == coordinator_.evaluation + 1 &&
                           message.ticket * (options_.spec.portions + 1) <= options_.spec.tickets;
  if (!is_possible)
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("a coordinator after {} evaluations; job {} has had {}, and {} tickets at most",
                    message.ticket, options_.spec.job, coordinator_.evaluation, options_.spec.tickets));
  const auto state = compute::LbfgsState::from(message.numbers, {.history = history_of(options_.spec)});
  if (log_)
    log_->append_evaluation(fmt::format(
        R"("evaluation":{},"replica":{},"iteration":{},"loss":{},"gradient":{},"seconds":{:.6f},"ends":{})",
        message.ticket, message.replica, state.iterations, state.loss, state.gradient_norm, seconds_now(),
        message.ends));
  coordinator_ = {.evaluation = message.ticket, .numbers = message.numbers, .ends = message.ends};
}

void Space::advance(const StoreRequest& message, Request& request) {
  Coordinator known;
  {
    const std::lock_guard lock(desk_);
    require_desk();
    if (message.ticket <= coordinator_.evaluation) {  // behind the first, which may be in flight
      const std::shared_ptr<const Roles> now = roles();
      const auto kept = std::make_shared<Request>(std::move(request));
      return tell_all(now->backups(now->map.desk(), desk_filled_), {},
                      [kept] { answer(*kept, {.outcome = StoreAnswer::Outcome::kRepeated}); });
    }
    take_coordinator(message);
    known = coordinator_;
  }
  // The run continues only from a state that the backup has too.
  const auto kept = std::make_shared<Request>(std::move(request));
  hand_over_coordinator(
      known, [self = shared_from_this(), kept, evaluation = message.ticket, replica = message.replica] {
        self->begin_evaluation(evaluation, replica);
        answer(*kept, {});
      });
}

// Marks the coordinator's ticket and all before it as done.
void Space::begin_evaluation(std::int64_t evaluation, std::int32_t replica) {
  const std::lock_guard lock(desk_);
  const std::int64_t ticket = coordinator_ticket(evaluation - 1, options_.spec.portions);
  dealer_.extend(ticket + 1);
  dealer_.learn(ticket + 1, ticket, {});
  dealer_.done(replica, ticket);
  if (coordinator_.ends) dealer_.close();
  tell_deals({ticket}, replica);
  serve();
}

void Space::hand_over_coordinator(const Coordinator& known, const std::function<void()>& done) {
  const std::shared_ptr<const Roles> now = roles();
  tell_all(now->backups(now->map.desk(), desk_filled_),
           {.header = comm::encode(StoreRequest{.kind = Kind::kKeep,
                                                .ticket = known.evaluation,
                                                .job = options_.spec.job,
                                                .epoch = now->map.epoch,
                                                .numbers = known.numbers,
                                                .ends = known.ends})},
           done);
}

void Space::keep(const StoreRequest& message, Request& request) {
  const std::lock_guard lock(desk_);
  if (has_desk_) throw Error(ErrorCode::kAborted, "this server keeps the coordinator's numbers itself");
  require_sender(message, request, roles()->map.desk());
  if (message.ticket > coordinator_.evaluation)
    coordinator_ = {.evaluation = message.ticket, .numbers = message.numbers, .ends = message.ends};
  answer(request, {});
}

// The caller holds the scheduler's lock. The coordinator's state says more than the reports on its tickets.
void Space::take_over_evaluations() {
  const std::int64_t below = coordinator_.evaluation * (options_.spec.portions + 1);
  dealer_.extend(below);
  dealer_.learn(below, below, {});
  if (coordinator_.ends) dealer_.close();
}

}  // namespace distbelief::server
