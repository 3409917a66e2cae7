#include "distbelief/server/service/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/compute/lbfgs.h"
#include "distbelief/server/service/space_requests.h"
#include "distbelief/server/shard/lane_sum.h"

namespace distbelief::server {
namespace {

using comm::kSliceElements;
using comm::SpaceSpec;
using comm::StoreAnswer;
using comm::StoreRequest;

bool is_sync(const SpaceSpec& spec) { return spec.mode == "sync"; }
bool has_vectors(const SpaceSpec& spec) { return spec.mode == "sandblaster"; }

compute::Span span_of(const SpaceSpec& spec, std::int64_t slice) {
  const std::size_t begin = std::size_t(slice) * kSliceElements;
  return {.begin = begin, .end = std::min<std::size_t>(begin + kSliceElements, spec.elements)};
}

std::vector<compute::Segment> segments_in(const SpaceSpec& spec, compute::Span span) {
  std::vector<compute::Segment> segments;
  for (std::size_t i = 0; i < spec.parameters.size(); ++i) {
    const SpaceSpec::Stretch& stretch = spec.parameters[i];
    const std::size_t begin = std::max<std::size_t>(stretch.begin, span.begin);
    const std::size_t end = std::min<std::size_t>(stretch.begin + stretch.count, span.end);
    if (begin < end) segments.push_back({.parameter = int(i), .span = {begin, end}});
  }
  return segments;
}

}  // namespace

Space::Space(Options options, const std::shared_ptr<const Roles>& roles)
    : options_(std::move(options)),
      rule_(compute::make_optimizer(options_.spec.optimizer)),
      slices_(options_.spec.slices()),
      fixed_bytes_(bytes_for(options_.spec, *roles)),
      dealer_({.tickets = has_vectors(options_.spec) ? options_.spec.portions : options_.spec.tickets,
               .staleness =
                   options_.spec.mode == "bounded" ? std::optional(options_.spec.staleness) : std::nullopt,
               .is_open_ended = has_vectors(options_.spec),
               .waits_for_offers = options_.spec.input_bytes > 0}),
      meeting_(options_.spec.lanes, options_.spec.spare_lanes, options_.spec.lane_values),
      window_({.input_bytes = options_.spec.input_bytes, .count = options_.spec.window}) {
  if (!options_.log.empty()) log_ = std::make_unique<UpdateLog>(options_.log);
  desk_filled_ = roles->map.desk().filling;  // nothing exists yet, so it is filled
  for (const comm::TableSpec& table : options_.spec.tables)
    tables_.push_back(std::make_unique<Table>(Table::Options{.job = options_.spec.job,
                                                             .number = std::int32_t(tables_.size()),
                                                             .spec = table,
                                                             .tickets = options_.spec.tickets,
                                                             .budget = options_.budget,
                                                             .is_open = !options_.spec.loads_rows,
                                                             .log = log_.get(),
                                                             .roles = [this] { return this->roles(); }},
                                              *roles));
  set_roles(roles);
}

// A server that ends does not record that its jobs are over: other servers may continue them.
Space::~Space() {
  if (options_.budget) options_.budget->close();
}

void Space::close() {
  if (log_) log_->note_over();
  if (options_.budget) options_.budget->close();
}

std::shared_ptr<const Roles> Space::roles() const {
  const std::lock_guard lock(structure_);
  return roles_;
}

void Space::set_roles(const std::shared_ptr<const Roles>& roles) {
  {
    const std::lock_guard lock(structure_);
    roles_ = roles;
  }
  count_fixed(bytes_for(options_.spec, *roles));
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const bool holds = roles->holds(roles->map.part_of(std::int64_t(i)));
    if (Held* const one = holds ? &held(std::int64_t(i)) : known(i)) follow(*roles, *one);
  }
  for (const auto& table : tables_) table->follow(*roles);
  follow_desk(*roles);
}

// A server must take what a map assigns to it, whether or not there is room.
void Space::count_fixed(std::size_t bytes) {
  const std::size_t before = std::exchange(fixed_bytes_, bytes);
  if (!options_.budget) return;
  if (bytes > before) options_.budget->add(bytes - before);
  if (bytes < before) options_.budget->give_back(before - bytes);
}

// When this returns, nothing happens to the slice by older roles: every user of the slice holds its lock.
void Space::follow(const Roles& roles, Held& held) {
  const std::lock_guard lock(held.mutex);
  const ServerMap::Part& part = roles.map.part_of(held.slice.number());
  const bool is_primary = roles.is_primary(part);
  // A fill by an earlier primary does not count; and early updates of that primary, whose predecessors it had
  // not sent yet, were never answered.
  if (held.filled != part.filling || (is_primary && !held.was_primary)) held.filled = kNobody;
  if (is_primary && !held.was_primary)
    for (auto& [version, waiting] : std::exchange(held.early, {}))
      waiting.request.refuse(ErrorCode::kAborted, "the slice is this server's own now");
  held.taken_over |= is_primary && !held.was_primary;
  held.was_primary = is_primary;
  if (!is_primary && options_.budget)
    options_.budget->give_back(std::exchange(held.part_rooms, 0) * held.slice.size() * sizeof(float));
  if (!is_primary)
    for (Waiting& waiting : std::exchange(held.parts, {}))
      waiting.request.refuse(ErrorCode::kAborted, "the slice is handed to another server");
  if (roles.holds(part)) return;
  // The servers that need the updates have them, or this would not be the map.
  for (auto& [version, waiting] : std::exchange(held.early, {}))
    answer(waiting.request, {.version = version});
  held.pieces.clear();
  held.sum = {};
  held.slice.forget();
}

Space::Held* Space::known(std::size_t slice) {
  const std::lock_guard lock(structure_);
  return slices_[slice].get();
}

bool Space::is_filled() {
  const std::shared_ptr<const Roles> now = roles();
  for (std::size_t i = 0; i < slices_.size(); ++i)
    if (now->is_primary(now->map.part_of(std::int64_t(i))) && !held(std::int64_t(i)).slice.is_filled())
      return false;
  return true;
}

void Space::handle(const StoreRequest& message, Request& request) {
  using Kind = StoreRequest::Kind;
  if (is_of_server(message.kind) != (request.peer().role == "server"))
    throw Error(ErrorCode::kBadInput, "servers and replicas ask for different things");
  if (!is_of_server(message.kind)) require_own_name(message, request.peer().connection);
  switch (message.kind) {
    case Kind::kFill: return fill_first(message, request);
    case Kind::kPush: return push(message, request);
    case Kind::kPull: return pull(message, request);
    case Kind::kTake:
    case Kind::kBegin: return take(message, request);
    case Kind::kTell: return hear_done(message, request);
    case Kind::kMeet: return meet(message, request);
    case Kind::kLeave: return leave(message, request);
    case Kind::kCommand: return command(message, request);
    case Kind::kCoordinator: return give_coordinator(message, request);
    case Kind::kAdvance: return advance(message, request);
    case Kind::kKeep: return keep(message, request);
    case Kind::kReplicateCommand:
    case Kind::kReplicate: return replicate(message, request);
    case Kind::kInstall: return install(message, request);
    case Kind::kMean:
    case Kind::kDeals: return learn(message, request);
    case Kind::kPushRows:
    case Kind::kPullRows:
    case Kind::kRows:
    case Kind::kListRows:
    case Kind::kLoadRows: return handle_rows(message, request);
    case Kind::kPutInput: return put_input(message, request);
    case Kind::kGetInput: return give_input(message, request);
    case Kind::kAwaitDone: return await_done(message, request);
    case Kind::kKeepInput: return keep_input(message, request);
    case Kind::kPutStatistics:
    case Kind::kKeepStatistics: return put_statistics(message, request);
    case Kind::kGetStatistics: return give_statistics(request);
    case Kind::kOpen:
    case Kind::kMap:
    case Kind::kClose: break;
  }
  throw Error(ErrorCode::kBadInput, "this is not asked of a job");
}

void Space::handle_rows(const StoreRequest& message, Request& request) {
  using Kind = StoreRequest::Kind;
  if (message.table < 0 || std::size_t(message.table) >= tables_.size())
    throw Error(ErrorCode::kBadInput, fmt::format("table {} of job {}, which has {}", message.table,
                                                  options_.spec.job, tables_.size()));
  Table& table = *tables_[std::size_t(message.table)];
  if (message.kind == Kind::kPushRows) {
    const std::uint64_t connection = request.peer().connection;
    require_progress(message, connection, [&] { return table.has(message.ticket, message.parts); });
    return note_progress(connection, table.push(message, request));
  }
  if (message.kind == Kind::kPullRows) return table.pull(message, request);
  if (message.kind == Kind::kListRows) return table.list(message, request);
  if (message.kind == Kind::kLoadRows) return table.load(message, request);
  table.install(message, request);
}

Space::Held& Space::held(std::int64_t slice) {
  if (slice < 0 || std::size_t(slice) >= slices_.size())
    throw Error(ErrorCode::kBadInput,
                fmt::format("slice {} of job {}, which has {}", slice, options_.spec.job, slices_.size()));
  const std::lock_guard lock(structure_);
  std::unique_ptr<Held>& found = slices_[std::size_t(slice)];
  if (!found) {
    const compute::Span span = span_of(options_.spec, slice);
    Slice::Options options{.number = slice,
                           .span = span,
                           .segments = segments_in(options_.spec, span),
                           .rule = rule_.get(),
                           .compensation = options_.spec.compensation,
                           .staleness_aware = options_.spec.staleness_aware,
                           .keeps_previous = is_sync(options_.spec),
                           .log = log_.get(),
                           .budget = options_.budget.get()};
    if (has_vectors(options_.spec))
      options.vectors = {.vectors = std::size_t(options_.spec.vectors),
                         .portions = options_.spec.portions,
                         .count = span.size()};
    found = std::make_unique<Held>(std::move(options));
    // Nothing exists yet, so the server being filled has everything.
    found->was_primary = roles_->is_primary(roles_->map.part_of(slice));
    if (found->was_primary) found->filled = roles_->map.part_of(slice).filling;
  }
  return *found;
}

// Called again with the slice's lock before any change: the slice may have been handed over meanwhile.
void Space::require_primary(std::int64_t slice) const {
  const std::shared_ptr<const Roles> now = roles();
  if (slice >= 0 && !now->is_primary(now->map.part_of(slice)))
    throw Error(ErrorCode::kAborted, fmt::format("slice {} of job {} is another server's by map {}", slice,
                                                 options_.spec.job, now->map.epoch));
}

Space::Held& Space::held_as_primary(std::int64_t slice) {
  require_primary(slice);
  return held(slice);
}

void Space::fill_first(const StoreRequest& message, Request& request) {
  Held& target = held_as_primary(message.slice);
  require_progress(message, request.peer().connection, [&] { return target.slice.is_filled(); });
  const std::span<const float> values = payload_for(target, message, request);
  const std::lock_guard lock(target.mutex);
  require_primary(message.slice);
  const bool is_first = target.slice.fill(values.data());
  note_progress(request.peer().connection, !is_first);
  const StoreAnswer::Outcome outcome =
      is_first ? StoreAnswer::Outcome::kDone : StoreAnswer::Outcome::kRepeated;
  const auto kept = std::make_shared<Request>(std::move(request));
  const std::shared_ptr<const Roles> now = roles();
  const auto links = now->backups(now->map.part_of(message.slice), target.filled);
  const auto done = [kept, outcome] { answer(*kept, {.outcome = outcome}); };
  if (is_first)
    hand_over_state(target, links, done);
  else
    tell_all(links, {}, done);  // behind the first values, which are in flight
}

bool Space::has_push(Held& held, const StoreRequest& message) const {
  if (!has_vectors(options_.spec)) return held.slice.has(message.ticket);
  const std::int64_t portions = options_.spec.portions;
  return held.slice.has_portion(message.ticket / portions, message.ticket % portions);
}

void Space::push(const StoreRequest& message, Request& request) {
  Held& target = held_as_primary(message.slice);
  if (message.wants_values) {
    require_room(request, target.slice.size());
    require_copy(target, message.replica);
  }
  require_progress(message, request.peer().connection, [&] { return has_push(target, message); });
  const std::span<const float> values = payload_for(target, message, request);
  if (!target.slice.is_filled())
    throw Error(ErrorCode::kBadInput,
                fmt::format("slice {} of job {} has no first values yet", message.slice, options_.spec.job));
  if (is_sync(options_.spec)) return push_part(target, message, request);
  if (has_vectors(options_.spec)) return push_portion(target, message, request);
  require_tickets({message.ticket});
  const std::lock_guard lock(target.mutex);
  require_primary(message.slice);
  require_base(target, message);
  if (!target.slice.has_room_for(message.ticket))
    throw Error(ErrorCode::kBadInput,
                fmt::format("slice {} of job {} has {} stretches of tickets apart from each other, ticket {} "
                            "would be one more",
                            message.slice, options_.spec.job, TicketSet::kMostRanges, message.ticket));
  const Gradient gradient{.ticket = message.ticket,
                          .replica = message.replica,
                          .base = message.base,
                          .lr = message.lr,
                          .untouched = message.untouched,
                          .values = values.data()};
  const Slice::Applied applied = target.slice.apply(gradient, nullptr);
  note_progress(request.peer().connection, applied.repeated);
  const auto kept = std::make_shared<Waiting>(Waiting{.message = message, .request = std::move(request)});
  // The new values go out only when the backup has the gradient, because they may replace it in shared
  // memory.
  const auto done = [self = shared_from_this(), this, kept, &target, repeated = applied.repeated] {
    answer_push(target, *kept,
                {.outcome = repeated ? StoreAnswer::Outcome::kRepeated : StoreAnswer::Outcome::kDone});
  };
  hand_over(target, gradient, applied, kept, done);
}

// Answers a push, with the values where wanted. The slice may belong to another server by now, and have no
// values here.
void Space::answer_push(Held& held, Waiting& waiting, StoreAnswer told) {
  float* const room = waiting.message.wants_values ? room_for(waiting.request, held.slice.size()) : nullptr;
  const std::optional<std::int64_t> version = held.slice.read(waiting.message.replica, room);
  if (!version)
    return waiting.request.refuse(ErrorCode::kAborted, "the slice has gone to another server meanwhile");
  if (told.version == 0) told.version = *version;
  told.epoch = roles()->map.epoch;
  answer(waiting.request, told);
}

// Keeps the part until the step has all its lanes, except the spare ones.
void Space::push_part(Held& held, const StoreRequest& message, Request& request) {
  if (!is_node(options_.spec.lanes, {message.first_lane, message.end_lane}))
    throw Error(ErrorCode::kBadInput,
                fmt::format("lanes {} to {} are no node of the tree over {}", message.first_lane,
                            message.end_lane - 1, options_.spec.lanes));
  const std::lock_guard lock(held.mutex);
  require_primary(message.slice);
  const std::int64_t step = held.slice.version();
  if (message.ticket > step)
    throw Error(ErrorCode::kBadInput,
                fmt::format("replica {} is at step {}, slice {} of job {} at {}", message.replica,
                            message.ticket, message.slice, options_.spec.job, step));
  if (message.ticket < step) {
    note_own_work(request.peer().connection, message.ticket, true);
    const auto kept = std::make_shared<Waiting>(Waiting{.message = message, .request = std::move(request)});
    return hand_over(held, {}, {.repeated = true}, kept, [self = shared_from_this(), this, kept, &held] {
      answer_push(held, *kept, {.outcome = StoreAnswer::Outcome::kLate});
    });
  }
  require_fits(held, message);
  require_part_room(held, message);
  note_own_work(request.peer().connection, message.ticket, false);
  // A part that a replica sends again replaces the one before.
  std::erase_if(held.parts, [&](const Waiting& part) { return part.message.replica == message.replica; });
  held.parts.push_back({.message = message, .request = std::move(request)});
  std::int64_t lanes = 0;
  for (const Waiting& part : held.parts) lanes += part.message.end_lane - part.message.first_lane;
  if (lanes < options_.spec.lanes - options_.spec.spare_lanes) return;
  const float* const sum = sum_of_step(held);
  if (are_moderate({sum, held.slice.size()})) return finish_step(held, sum);
  request = std::move(held.parts.back().request);
  held.parts.pop_back();
  const std::string why = fmt::format(
      "the sum over replicas of step {} of job {} has a number that is not finite, or larger than {}, in "
      "slice {}; lower train.lr",
      message.ticket, options_.spec.job, kMostMagnitude, message.slice);
  for (Waiting& part : std::exchange(held.parts, {})) part.request.refuse(ErrorCode::kBadInput, why);
  throw Error(ErrorCode::kBadInput, why);
}

const float* Space::sum_of_step(Held& held) const {
  std::vector<LanePart> parts;
  for (const Waiting& part : held.parts)
    parts.push_back({.lanes = {part.message.first_lane, part.message.end_lane},
                     .values = floats_in(part.request).data(),
                     .samples = part.message.samples});
  return add_up(options_.spec.lanes, std::move(parts), held.parts[0].message.step_samples, held.slice.size(),
                held.sum);
}

void Space::finish_step(Held& held, const float* sum) {
  std::vector<std::int32_t> replicas, untouched = held.parts[0].message.untouched;
  for (const Waiting& part : held.parts) {
    replicas.push_back(part.message.replica);
    // A parameter counts as touched if one replica touched it.
    std::erase_if(untouched, [&](std::int32_t parameter) {
      return std::ranges::find(part.message.untouched, parameter) == part.message.untouched.end();
    });
  }
  std::ranges::sort(replicas);
  const StoreRequest first = held.parts[0].message;
  const Gradient gradient{.ticket = first.ticket,
                          .replica = first.replica,
                          .base = first.ticket,
                          .lr = first.lr,
                          .untouched = untouched,
                          .values = sum,
                          .of = replicas};
  const Slice::Applied applied = held.slice.apply(gradient, nullptr);
  // Without spare lanes no replica takes the next step, which would reuse `sum`, before these have their
  // answers. With spare lanes that can happen, so `sum` moves along.
  struct Kept {
    std::vector<Waiting> parts;
    std::vector<float> sum;
  };
  const auto kept = std::make_shared<Kept>(Kept{.parts = std::exchange(held.parts, {}), .sum = {}});
  if (options_.spec.spare_lanes > 0) kept->sum = std::move(held.sum);
  hand_over(held, gradient, applied, kept,
            [self = shared_from_this(), this, kept, &held, version = applied.version] {
              for (Waiting& part : kept->parts) answer_push(held, part, {.version = version});
            });
}

// A replica that joins a synchronous run pulls the values of its step.
void Space::pull(const StoreRequest& message, Request& request) {
  Held& target = held_as_primary(message.slice);
  if (!target.slice.is_filled())
    throw Error(ErrorCode::kUnavailable,
                fmt::format("slice {} of job {} has no first values yet", message.slice, options_.spec.job));
  require_copy(target, message.replica);
  float* const room = room_for(request, target.slice.size());
  std::optional<std::int64_t> version;
  if (message.base == 0)
    version = target.slice.read(message.replica, room);
  else if (target.slice.read_version(message.base, room))
    version = message.base;
  if (version) return answer(request, {.version = *version});
  require_primary(message.slice);  // handed over meanwhile, perhaps
  throw Error(ErrorCode::kUnavailable, fmt::format("slice {} of job {} has no version {} any more",
                                                   message.slice, options_.spec.job, message.base));
}

}  // namespace distbelief::server
