#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/server/service/space.h"
#include "distbelief/server/service/space_requests.h"
#include "distbelief/server/shard/lane_sum.h"

// The ticket scheduler of a job state: it deals out tickets, and lanes meet here.
namespace distbelief::server {

using comm::StoreAnswer;
using comm::StoreRequest;

namespace {

constexpr int kDealsAtOnce = 64;  // in flight to the backup before requests wait for them

}  // namespace

std::int64_t Space::meeting_step() {
  const std::lock_guard lock(desk_);
  return meeting_.step();
}

// Refuses waiting requests when another server becomes the scheduler, so that they go there.
void Space::follow_desk(const Roles& roles) {
  const std::lock_guard lock(desk_);
  const bool has_desk = roles.is_primary(roles.map.desk());
  if (has_desk && !has_desk_ && options_.spec.vectors > 0) take_over_evaluations();
  if (has_desk && !has_desk_) {
    desk_filled_ = kNobody;  // a fill by an earlier primary does not count
    dealer_.take_over();
    freshness_ = {};
    for (const int replica : dealer_.replicas())
      if (log_) log_->note_joined(replica, dealer_.clock(replica));
    for (const std::int64_t ticket : window_.whole()) dealer_.offer(ticket);
  }
  has_desk_ = has_desk;
  if (desk_filled_ != roles.map.desk().filling) desk_filled_ = kNobody;
  if (!roles.holds(roles.map.desk())) window_.clear();
  if (has_desk) return;
  for (std::vector<Waiting>* waiting : {&takers_, &beginners_, &meeters_, &putters_, &enders_})
    for (Waiting& one : std::exchange(*waiting, {}))
      one.request.refuse(ErrorCode::kAborted, "the work is dealt out by another server");
}

// The caller holds the scheduler's lock.
void Space::require_desk() {
  if (!has_desk_)
    throw Error(ErrorCode::kAborted,
                fmt::format("the work of job {} is dealt out by another server", options_.spec.job));
}

// A replica joins with its first request; returns whether it does. A restarted replica replaces its earlier
// incarnation.
bool Space::enter(const StoreRequest& message, const Request& request) {
  const auto found = seats_.find(message.replica);
  if (found != seats_.end() && found->second.incarnation > message.incarnation)
    throw Error(ErrorCode::kAborted,
                fmt::format("replica {} was started again: this one is not wanted", message.replica));
  const bool is_new = found == seats_.end() || found->second.incarnation != message.incarnation;
  if (is_new)  // the earlier incarnation will not see its answers
    drop_waiting([&](const Waiting& one) {
      return one.message.replica == message.replica && one.message.incarnation < message.incarnation;
    });
  const bool joins = is_new || !dealer_.has(message.replica);
  if (joins) {
    freshness_.forget(message.replica);
    dealer_.join(message.replica, message.clock < 0 ? std::nullopt : std::optional(message.clock));
    if (log_) log_->note_joined(message.replica, dealer_.clock(message.replica));
  }
  seats_[message.replica] = {.incarnation = message.incarnation, .connection = request.peer().connection};
  return joins;
}

void Space::let_go(std::int32_t replica, const std::vector<std::int64_t>& done) {
  const bool is_told = has_desk_ && dealer_.has(replica);
  if (is_told && log_) log_->note_left(replica);
  dealer_.leave(replica);
  freshness_.forget(replica);
  if (is_told || !done.empty()) tell_deals(done, replica);
}

// The caller holds the scheduler's lock.
void Space::drop_waiting(const std::function<bool(const Waiting&)>& is_unwanted) {
  for (std::vector<Waiting>* waiting : {&takers_, &beginners_, &meeters_, &putters_, &enders_})
    std::erase_if(*waiting, is_unwanted);
}

// The caller holds the scheduler's lock. Returns the new tickets: the backup is told of these alone, so that
// it knows the same.
std::vector<std::int64_t> Space::count_done(const StoreRequest& message) {
  std::vector<std::int64_t> counted;
  for (const std::int64_t ticket : message.done)
    if (dealer_.done(message.replica, ticket)) counted.push_back(ticket);
  return counted;
}

// The caller holds the scheduler's lock. Tells the backup only of changes, because honest pushes queue behind
// them on the way to it.
void Space::note_done(const StoreRequest& message, const Request& request) {
  require_desk();
  const auto is_known = [&](std::int64_t ticket) { return dealer_.done_tickets().contains(ticket); };
  const bool is_repeated = !message.done.empty() && std::ranges::all_of(message.done, is_known);
  require_progress(message, request.peer().connection, [&] { return is_repeated; });
  const bool joins = enter(message, request);
  note_claims(request.peer().connection, message.done, is_repeated);
  const std::int64_t before = dealer_.clock(message.replica);
  const std::vector<std::int64_t> counted = count_done(message);
  // Messages of one connection come in any order, so the replica's own count decides: otherwise it could
  // begin a step before the scheduler knows that it has done the last one, and be one further ahead than
  // allowed.
  if (message.clock >= 0)
    dealer_.set_clock(message.replica, std::max(before, message.clock + std::int64_t(message.done.size())));
  const bool has_moved = joins || dealer_.clock(message.replica) != before;
  if (!counted.empty() || (has_moved && options_.spec.mode == "bounded"))
    tell_deals(counted, message.replica);
}

void Space::take(const StoreRequest& message, Request& request) {
  require_clock(message);
  const std::lock_guard lock(desk_);
  note_done(message, request);
  auto& waiting = message.kind == StoreRequest::Kind::kTake ? takers_ : beginners_;
  waiting.push_back({.message = message, .request = std::move(request)});
  serve();
}

void Space::hear_done(const StoreRequest& message, Request& request) {
  require_clock(message);
  const std::lock_guard lock(desk_);
  note_done(message, request);
  answer_in_turn(std::move(request), {});
  serve();
}

// Answers all requests whose turn has come.
void Space::serve() {
  serve_inputs();
  std::erase_if(takers_, [&](Waiting& taker) {
    if (!dealer_.has(taker.message.replica)) return true;
    const std::optional<std::int64_t> ticket =
        options_.spec.vectors > 0 ? take_portion(taker.message.replica) : dealer_.take(taker.message.replica);
    if (!ticket && !dealer_.is_drained()) return false;
    const std::int64_t clock = dealer_.clock(taker.message.replica);
    if (ticket) {
      tell_deals({}, taker.message.replica);
      answer_in_turn(std::move(taker.request), {.ticket = *ticket, .clock = clock});
    } else {
      tell_end(std::move(taker.request), clock);
    }
    return true;
  });
  std::erase_if(beginners_, [&](Waiting& beginner) {
    const int replica = beginner.message.replica;
    if (!dealer_.has(replica)) return true;
    if (!dealer_.may_begin(replica)) return false;
    let_begin(beginner);
    return true;
  });
}

void Space::let_begin(Waiting& beginner) {
  if (options_.spec.mode != "bounded") return answer(beginner.request, {});  // it need not have asked
  const std::int32_t replica = beginner.message.replica;
  const std::int64_t clock = dealer_.clock(replica);
  if (log_) log_->append_begin(replica, clock, dealer_.slowest(), beginner.message.ticket);
  Freshness::Clocks clocks;
  for (const int one : dealer_.replicas()) clocks[one] = dealer_.clock(one);
  const bool is_stale =
      freshness_.begin(replica, beginner.message.ticket, clock - options_.spec.staleness, clocks);
  answer_in_turn(std::move(beginner.request),
                 {.outcome = is_stale ? StoreAnswer::Outcome::kStale : StoreAnswer::Outcome::kDone});
}

// The caller holds the scheduler's lock. Answers at once, unless many deals are in flight to the backup: then
// behind those, so that a replica that sends many requests waits itself and delays no other.
void Space::answer_in_turn(Request request, const StoreAnswer& told) {
  if (*telling_ < kDealsAtOnce) return answer(request, told);
  const std::shared_ptr<const Roles> now = roles();
  const auto kept = std::make_shared<Request>(std::move(request));
  tell_all(now->backups(now->map.desk(), desk_filled_), {}, [kept, told] { answer(*kept, told); });
}

// A replica that is told the end may leave for good. The backup must know first that all is done, or after a
// loss others would wait for work that no replica does.
void Space::tell_end(Request request, std::int64_t clock) {
  const std::shared_ptr<const Roles> now = roles();
  const auto kept = std::make_shared<Request>(std::move(request));
  tell_all(now->backups(now->map.desk(), desk_filled_), {},
           [kept, clock] { answer(*kept, {.outcome = StoreAnswer::Outcome::kEnd, .clock = clock}); });
}

// Answers behind the mean itself, which may be in flight to the backup.
void Space::give_mean(Request& request, std::int64_t asked) {
  const std::int64_t step = meeting_.given_for(asked);
  const std::vector<float>* const mean = meeting_.mean_of(step);
  if (!mean)
    throw Error(ErrorCode::kUnavailable,
                fmt::format("the lanes' values of step {} are gone, this is step {}", step, meeting_.step()));
  std::memcpy(room_for(request, mean->size()), mean->data(), mean->size() * sizeof(float));
  const std::shared_ptr<const Roles> now = roles();
  const auto kept = std::make_shared<Request>(std::move(request));
  tell_all(now->backups(now->map.desk(), desk_filled_), {},
           [kept, step] { answer(*kept, {.outcome = StoreAnswer::Outcome::kLate, .version = step}); });
}

// The caller holds the scheduler's lock.
void Space::require_own_lanes(const StoreRequest& message) const {
  for (const Waiting& one : meeters_) {
    const StoreRequest& other = one.message;
    const bool overlap = other.first_lane < message.end_lane && message.first_lane < other.end_lane;
    if (overlap && other.replica != message.replica)
      throw Error(
          ErrorCode::kBadInput,
          fmt::format("replica {} sent lanes {} to {} of step {}, which are replica {}'s", message.replica,
                      message.first_lane, message.end_lane - 1, message.ticket, other.replica));
  }
}

void Space::meet(const StoreRequest& message, Request& request) {
  const std::size_t lanes = std::size_t(std::max<std::int64_t>(0, message.end_lane - message.first_lane));
  const std::lock_guard lock(desk_);
  require_desk();
  if (message.ticket < meeting_.step()) return give_mean(request, message.ticket);
  const bool is_node_of_it = is_node(options_.spec.lanes, {message.first_lane, message.end_lane});
  if (message.ticket > meeting_.step() || !is_node_of_it ||
      request.payload().size() != lanes * options_.spec.lane_values * sizeof(float))
    throw Error(ErrorCode::kBadInput,
                fmt::format("lanes {} to {} of step {} with {} bytes; wanted: step {}, {} values a lane",
                            message.first_lane, message.end_lane - 1, message.ticket,
                            request.payload().size(), meeting_.step(), options_.spec.lane_values));
  require_own_lanes(message);
  require_room(request, options_.spec.lane_values);
  if (!are_finite(floats_in(request)))
    throw Error(ErrorCode::kBadInput,
                fmt::format("replica {} sent a number that is not finite for lanes {} to {} of step {}",
                            message.replica, message.first_lane, message.end_lane - 1, message.ticket));
  const bool is_complete = meeting_.add(message.first_lane, message.end_lane, message.untouched,
                                        floats_in(request).first(lanes * options_.spec.lane_values));
  meeters_.push_back({.message = message, .request = std::move(request)});
  if (!is_complete) return;
  // A replica continues once it has the answer, so the mean must not be lost with this server.
  const auto kept = std::make_shared<std::vector<Waiting>>(std::exchange(meeters_, {}));
  const auto mean = std::make_shared<std::vector<float>>(*meeting_.mean_of(message.ticket));
  hand_over_mean(message.ticket, [kept, mean] {
    for (Waiting& one : *kept) {
      std::memcpy(room_for(one.request, mean->size()), mean->data(), mean->size() * sizeof(float));
      answer(one.request, {.version = one.message.ticket});
    }
  });
}

void Space::hand_over_mean(std::int64_t step, const std::function<void()>& done) {
  const std::shared_ptr<const Roles> now = roles();
  const auto mean = std::make_shared<std::vector<float>>(*meeting_.mean_of(step));
  tell_all(now->backups(now->map.desk(), desk_filled_),
           {.header = comm::encode(StoreRequest{.kind = StoreRequest::Kind::kMean,
                                                .ticket = step,
                                                .job = options_.spec.job,
                                                .epoch = now->map.epoch}),
            .payload = std::as_bytes(std::span(*mean)),
            .owner = mean},
           done);
}

// No request waits for it: the backup deals again the tickets that it does not know of. But it must hear of
// replicas that left, because no other message would tell it, and others wait for the slowest.
void Space::tell_deals(const std::vector<std::int64_t>& done, std::int32_t replica) {
  const std::shared_ptr<const Roles> now = roles();
  StoreRequest told{.kind = StoreRequest::Kind::kDeals,
                    .replica = replica,
                    .ticket = dealer_.next(),
                    .clock = dealer_.clock(replica),
                    .job = options_.spec.job,
                    .version = ++told_,
                    .epoch = now->map.epoch,
                    .ends = !dealer_.has(replica)};
  for (const std::int64_t ticket : done) told.done.insert(told.done.end(), {ticket, ticket + 1});
  ++*telling_;
  tell_all(now->backups(now->map.desk(), desk_filled_), {.header = comm::encode(told)},
           [telling = telling_] { --*telling; });
}

// Messages come in any order: the last report on a replica counts.
void Space::learn_clock(const StoreRequest& message) {
  const std::pair said{message.epoch, message.version};
  std::pair<std::int64_t, std::int64_t>& heard = heard_[message.replica];
  if (said < heard) return;
  heard = said;
  dealer_.learn_clock(message.replica, message.ends ? std::nullopt : std::optional(message.clock));
}

void Space::learn(const StoreRequest& message, Request& request) {
  const std::lock_guard lock(desk_);
  if (has_desk_) throw Error(ErrorCode::kAborted, "this server deals out the work itself");
  require_sender(message, request, roles()->map.desk());
  if (message.kind == StoreRequest::Kind::kMean) {
    const std::span<const float> mean = floats_in(request);
    if (mean.size() != options_.spec.lane_values)
      throw Error(ErrorCode::kBadInput,
                  fmt::format("{} values for a mean of {}", mean.size(), options_.spec.lane_values));
    meeting_.install(message.ticket, {mean.begin(), mean.end()});
  } else {
    require_ranges(message.done);
    if (message.clock >= 0) learn_clock(message);
    if (options_.spec.vectors > 0) dealer_.extend(std::min(message.ticket, options_.spec.tickets));
    dealer_.learn(message.ticket, std::min(message.below, options_.spec.tickets), message.done);
    window_.drop(dealer_.done_tickets());
  }
  answer(request, {});
}

void Space::fill_desk(int newcomer) {
  const std::lock_guard lock(desk_);
  const std::shared_ptr<const Roles> now = roles();
  if (!now->is_primary(now->map.desk()) || now->map.desk().filling != newcomer) return;
  desk_filled_ = newcomer;
  const std::int64_t below = dealer_.done_tickets().below();
  tell_all(now->backups(now->map.desk(), desk_filled_),
           {.header = comm::encode(StoreRequest{.kind = StoreRequest::Kind::kDeals,
                                                .ticket = dealer_.next(),
                                                .done = dealer_.done_tickets().ranges(),
                                                .job = options_.spec.job,
                                                .epoch = now->map.epoch,
                                                .below = below})},
           [] {});
  for (const int replica : dealer_.replicas()) tell_deals({}, replica);
  if (options_.spec.vectors > 0) hand_over_coordinator(coordinator_, [] {});
  if (const auto link = now->links.find(newcomer); link != now->links.end()) fill_inputs(link->second);
  for (const std::int64_t step : {meeting_.step() - 2, meeting_.step() - 1})
    if (meeting_.mean_of(step)) hand_over_mean(step, [] {});
}

// Answered when the backup knows it too: a scheduler that takes over must not wait for a replica that has
// left.
void Space::leave(const StoreRequest& message, Request& request) {
  const std::lock_guard lock(desk_);
  require_desk();
  const auto found = seats_.find(message.replica);
  // A replica known only from an earlier scheduler may not have joined here.
  if (found == seats_.end() || found->second.incarnation == message.incarnation) {
    let_go(message.replica, count_done(message));
    for (std::vector<Waiting>* waiting : {&takers_, &beginners_})
      std::erase_if(*waiting, [&](Waiting& one) {
        if (one.message.replica != message.replica) return false;
        one.request.refuse(ErrorCode::kAborted, "this replica has left");
        return true;
      });
    serve();
  }
  const std::shared_ptr<const Roles> now = roles();
  const auto kept = std::make_shared<Request>(std::move(request));
  tell_all(now->backups(now->map.desk(), desk_filled_), {}, [kept] { answer(*kept, {}); });
}

void Space::gone(std::uint64_t connection) {
  const std::optional<std::int32_t> silent = forget_speaker(connection);
  const std::lock_guard lock(desk_);
  drop_waiting([&](const Waiting& one) { return one.request.peer().connection == connection; });
  for (const auto& [replica, seat] : seats_)
    if (seat.connection == connection) let_go(replica);
  // The replica may be known only from an earlier scheduler, and never have joined here.
  if (silent && !(has_desk_ && seats_.contains(*silent))) let_go(*silent);
  serve();
}

}  // namespace distbelief::server
