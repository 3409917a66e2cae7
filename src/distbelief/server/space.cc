#include "distbelief/server/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "distbelief/base/error.h"
#include "distbelief/server/lane_sum.h"

namespace distbelief::server {
namespace {

using comm::kSliceElements;
using comm::SpaceSpec;
using comm::StoreAnswer;
using comm::StoreRequest;

bool is_sync(const SpaceSpec& spec) { return spec.mode == "sync"; }

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

void answer(Space::Request& request, const StoreAnswer& answer) { request.answer(comm::encode(answer)); }

std::span<const float> floats_in(const Space::Request& request) {
  const std::span<const std::byte> bytes = request.payload();
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

float* room_for(Space::Request& request, std::size_t floats) {
  return reinterpret_cast<float*>(request.reserve(floats * sizeof(float)).data());
}

}  // namespace

void require_sound(const SpaceSpec& spec) {
  const auto require = [&](bool is_good, const std::string& why) {
    if (!is_good) throw Error(ErrorCode::kBadInput, fmt::format("job {}: {}", spec.job, why));
  };
  require(!spec.job.empty() && spec.job.size() <= 256, "its name has 1 to 256 bytes");
  require(spec.elements > 0, "it has no parameters");
  require(spec.mode == "sync" || spec.mode == "async" || spec.mode == "bounded",
          fmt::format("servers know the modes sync, async and bounded, not '{}'", spec.mode));
  require(spec.lanes >= 1 && spec.spare_lanes >= 0 && spec.spare_lanes < spec.lanes,
          fmt::format("{} spare lanes of {}", spec.spare_lanes, spec.lanes));
  require(spec.lanes <= (1 << 20) && spec.lane_values <= kSliceElements,
          fmt::format("{} lanes with {} values each are too many", spec.lanes, spec.lane_values));
  require(spec.tickets >= 0 && spec.staleness >= 0, "a negative number of tickets or bound of staleness");
  const auto rule = compute::make_optimizer(spec.optimizer);
  require(dynamic_cast<compute::LayerwiseOptimizer*>(rule.get()) == nullptr,
          fmt::format("the rule {} needs norms of whole parameters, which no server has; servers apply sgd, "
                      "adagrad, adam and adamw",
                      spec.optimizer.name));
  std::vector<SpaceSpec::Stretch> stretches = spec.parameters;
  std::ranges::sort(stretches, {}, &SpaceSpec::Stretch::begin);
  std::uint64_t end = 0;
  for (const SpaceSpec::Stretch& stretch : stretches) {
    require(stretch.begin >= end && stretch.begin <= spec.elements &&
                stretch.count <= spec.elements - stretch.begin,
            "a parameter lies outside the arena or on another");
    end = stretch.begin + stretch.count;
  }
}

std::size_t bytes_of(const SpaceSpec& spec, KeyRange range) {
  const std::size_t states = compute::make_optimizer(spec.optimizer)->state_names().size();
  const std::size_t copies = 1 + states + (is_sync(spec) ? 2 : 0);
  return std::size_t(range.end - range.begin) * kSliceElements * sizeof(float) * copies;
}

Space::Space(Options options)
    : options_(std::move(options)),
      rule_(compute::make_optimizer(options_.spec.optimizer)),
      dealer_({.tickets = options_.spec.tickets,
               .staleness =
                   options_.spec.mode == "bounded" ? std::optional(options_.spec.staleness) : std::nullopt}),
      meeting_(options_.spec.lanes, options_.spec.spare_lanes, options_.spec.lane_values) {
  if (!options_.log.empty()) log_ = std::make_unique<UpdateLog>(options_.log);
  for (std::int64_t slice = options_.range.begin; slice < options_.range.end; ++slice) {
    const compute::Span span = span_of(options_.spec, slice);
    slices_.push_back(std::make_unique<Held>(Slice::Options{.number = slice,
                                                            .span = span,
                                                            .segments = segments_in(options_.spec, span),
                                                            .rule = rule_.get(),
                                                            .compensation = options_.spec.compensation,
                                                            .staleness_aware = options_.spec.staleness_aware,
                                                            .keeps_previous = is_sync(options_.spec),
                                                            .log = log_.get()}));
  }
}

Space::~Space() = default;

bool Space::is_filled() {
  return std::ranges::all_of(slices_, [](const auto& held) { return held->slice.is_filled(); });
}

std::int64_t Space::meeting_step() {
  const std::lock_guard lock(desk_);
  return meeting_.step();
}

void Space::handle(const StoreRequest& message, Request& request) {
  switch (message.kind) {
    case StoreRequest::Kind::kFill: return fill(message, request);
    case StoreRequest::Kind::kPush: return push(message, request);
    case StoreRequest::Kind::kPull: return pull(message, request);
    case StoreRequest::Kind::kTake:
    case StoreRequest::Kind::kBegin: return take(message, request);
    case StoreRequest::Kind::kMeet: return meet(message, request);
    case StoreRequest::Kind::kLeave: return leave(message, request);
    case StoreRequest::Kind::kOpen: break;
  }
  throw Error(ErrorCode::kBadInput, "a job that is open is not opened again under its number");
}

Space::Held& Space::held(std::int64_t slice) {
  if (!options_.range.contains(slice))
    throw Error(ErrorCode::kBadInput,
                fmt::format("slice {} of job {} is not here: this server has {} to {}", slice,
                            options_.spec.job, options_.range.begin, options_.range.end - 1));
  return *slices_[std::size_t(slice - options_.range.begin)];
}

std::span<const float> Space::payload_for(const Held& held, const StoreRequest& message,
                                          const Request& request) const {
  const std::span<const float> values = floats_in(request);
  if (request.payload().size() != held.slice.size() * sizeof(float))
    throw Error(ErrorCode::kBadInput,
                fmt::format("slice {} of job {} has {} bytes, found {}", message.slice, options_.spec.job,
                            held.slice.size() * sizeof(float), request.payload().size()));
  if (!are_finite(values))
    throw Error(ErrorCode::kBadInput,
                fmt::format("replica {} sent a number that is not finite for slice {} of job {} (ticket {}); "
                            "lower train.lr",
                            message.replica, message.slice, options_.spec.job, message.ticket));
  return values;
}

void Space::fill(const StoreRequest& message, Request& request) {
  Held& target = held(message.slice);
  const std::span<const float> values = payload_for(target, message, request);
  const bool is_first = target.slice.fill(values.data());
  answer(request, {.outcome = is_first ? StoreAnswer::Outcome::kDone : StoreAnswer::Outcome::kRepeated});
}

void Space::push(const StoreRequest& message, Request& request) {
  Held& target = held(message.slice);
  const std::span<const float> values = payload_for(target, message, request);
  if (!target.slice.is_filled())
    throw Error(ErrorCode::kBadInput,
                fmt::format("slice {} of job {} has no first values yet", message.slice, options_.spec.job));
  if (is_sync(options_.spec)) return push_part(target, message, request);
  if (message.ticket >= options_.spec.tickets)
    throw Error(ErrorCode::kBadInput, fmt::format("ticket {} of job {}, which has {}", message.ticket,
                                                  options_.spec.job, options_.spec.tickets));
  float* const room = message.wants_values ? room_for(request, target.slice.size()) : nullptr;
  const Slice::Applied applied = target.slice.apply({.ticket = message.ticket,
                                                     .replica = message.replica,
                                                     .base = message.base,
                                                     .lr = message.lr,
                                                     .untouched = message.untouched,
                                                     .values = values.data()},
                                                    room);
  answer(request,
         {.outcome = applied.repeated ? StoreAnswer::Outcome::kRepeated : StoreAnswer::Outcome::kDone,
          .version = applied.version});
}

// Kept until the step has all its lanes, but for the spare ones.
void Space::push_part(Held& held, const StoreRequest& message, Request& request) {
  if (!is_node(options_.spec.lanes, {message.first_lane, message.end_lane}))
    throw Error(ErrorCode::kBadInput,
                fmt::format("lanes {} to {} are no node of the tree over {}", message.first_lane,
                            message.end_lane - 1, options_.spec.lanes));
  const std::lock_guard lock(held.mutex);
  const std::int64_t step = held.slice.version();
  if (message.ticket > step)
    throw Error(ErrorCode::kBadInput,
                fmt::format("replica {} is at step {}, slice {} of job {} at {}", message.replica,
                            message.ticket, message.slice, options_.spec.job, step));
  if (message.ticket < step) {
    float* const room = message.wants_values ? room_for(request, held.slice.size()) : nullptr;
    const std::int64_t version = room ? held.slice.read(message.replica, room) : step;
    return answer(request, {.outcome = StoreAnswer::Outcome::kLate, .version = version});
  }
  // A replica that comes again takes the place of what it sent before.
  std::erase_if(held.parts, [&](const Waiting& part) {
    return part.message.first_lane < message.end_lane && message.first_lane < part.message.end_lane;
  });
  held.parts.push_back({.message = message, .request = std::move(request)});
  std::int64_t lanes = 0;
  for (const Waiting& part : held.parts) lanes += part.message.end_lane - part.message.first_lane;
  if (lanes >= options_.spec.lanes - options_.spec.spare_lanes) finish_step(held);
}

void Space::finish_step(Held& held) {
  std::vector<LanePart> parts;
  std::vector<std::int32_t> untouched = held.parts[0].message.untouched;
  for (const Waiting& part : held.parts) {
    parts.push_back({.lanes = {part.message.first_lane, part.message.end_lane},
                     .values = floats_in(part.request).data(),
                     .samples = part.message.samples});
    // Touched by one is touched.
    std::erase_if(untouched, [&](std::int32_t parameter) {
      return std::ranges::find(part.message.untouched, parameter) == part.message.untouched.end();
    });
  }
  const StoreRequest first = held.parts[0].message;
  const float* const sum =
      add_up(options_.spec.lanes, std::move(parts), first.step_samples, held.slice.size(), held.sum);
  const Slice::Applied applied = held.slice.apply({.ticket = first.ticket,
                                                   .replica = first.replica,
                                                   .base = first.ticket,
                                                   .lr = first.lr,
                                                   .untouched = untouched,
                                                   .values = sum},
                                                  nullptr);
  for (Waiting& part : held.parts) {
    if (part.message.wants_values)
      held.slice.read(part.message.replica, room_for(part.request, held.slice.size()));
    answer(part.request, {.version = applied.version});
  }
  held.parts.clear();
}

// A replica that joins a synchronous run asks for the values of its step.
void Space::pull(const StoreRequest& message, Request& request) {
  Held& target = held(message.slice);
  if (!target.slice.is_filled())
    throw Error(ErrorCode::kUnavailable,
                fmt::format("slice {} of job {} has no first values yet", message.slice, options_.spec.job));
  float* const room = room_for(request, target.slice.size());
  if (message.base == 0) return answer(request, {.version = target.slice.read(message.replica, room)});
  if (!target.slice.read_version(message.base, room))
    throw Error(ErrorCode::kUnavailable, fmt::format("slice {} of job {} has no version {} any more",
                                                     message.slice, options_.spec.job, message.base));
  answer(request, {.version = message.base});
}

void Space::require_desk() const {
  if (!options_.has_desk)
    throw Error(ErrorCode::kBadInput,
                fmt::format("the work of job {} is dealt out by its first server", options_.spec.job));
}

// A replica takes its seat with its first question. One that was started again takes that of the one before.
void Space::enter(const StoreRequest& message, const Request& request) {
  const auto found = seats_.find(message.replica);
  if (found != seats_.end() && found->second.incarnation > message.incarnation)
    throw Error(ErrorCode::kAborted,
                fmt::format("replica {} was started again: this one is not wanted", message.replica));
  const bool is_new = found == seats_.end() || found->second.incarnation != message.incarnation;
  if (is_new || !dealer_.has(message.replica)) dealer_.join(message.replica);
  seats_[message.replica] = {.incarnation = message.incarnation, .connection = request.peer().connection};
}

void Space::take(const StoreRequest& message, Request& request) {
  require_desk();
  const std::lock_guard lock(desk_);
  enter(message, request);
  for (const std::int64_t ticket : message.done) dealer_.done(message.replica, ticket);
  auto& waiting = message.kind == StoreRequest::Kind::kTake ? takers_ : beginners_;
  waiting.push_back({.message = message, .request = std::move(request)});
  serve();
}

// Answers all whose turn has come.
void Space::serve() {
  std::erase_if(takers_, [&](Waiting& taker) {
    if (!dealer_.has(taker.message.replica)) return true;
    const std::optional<std::int64_t> ticket = dealer_.take(taker.message.replica);
    if (!ticket && !dealer_.is_drained()) return false;
    answer(taker.request, {.outcome = ticket ? StoreAnswer::Outcome::kDone : StoreAnswer::Outcome::kEnd,
                           .ticket = ticket.value_or(0)});
    return true;
  });
  std::erase_if(beginners_, [&](Waiting& beginner) {
    const int replica = beginner.message.replica;
    if (!dealer_.has(replica)) return true;
    if (!dealer_.may_begin(replica)) return false;
    if (log_) log_->append_begin(replica, dealer_.clock(replica), dealer_.slowest());
    answer(beginner.request, {});
    return true;
  });
}

void Space::meet(const StoreRequest& message, Request& request) {
  require_desk();
  const std::size_t lanes = std::size_t(std::max<std::int64_t>(0, message.end_lane - message.first_lane));
  const std::lock_guard lock(desk_);
  const auto give = [&](Request& to, std::int64_t step, StoreAnswer::Outcome outcome) {
    const std::vector<float>* const mean = meeting_.mean_of(step);
    if (!mean)
      throw Error(
          ErrorCode::kUnavailable,
          fmt::format("the lanes' values of step {} are gone, this is step {}", step, meeting_.step()));
    std::memcpy(room_for(to, mean->size()), mean->data(), mean->size() * sizeof(float));
    answer(to, {.outcome = outcome, .version = step});
  };
  if (message.ticket < meeting_.step()) return give(request, message.ticket, StoreAnswer::Outcome::kLate);
  if (message.ticket > meeting_.step() ||
      !is_node(options_.spec.lanes, {message.first_lane, message.end_lane}) ||
      request.payload().size() != lanes * options_.spec.lane_values * sizeof(float))
    throw Error(ErrorCode::kBadInput,
                fmt::format("lanes {} to {} of step {} with {} bytes; wanted: step {}, {} values a lane",
                            message.first_lane, message.end_lane - 1, message.ticket,
                            request.payload().size(), meeting_.step(), options_.spec.lane_values));
  const bool is_complete = meeting_.add(message.first_lane, message.end_lane, message.untouched,
                                        floats_in(request).first(lanes * options_.spec.lane_values));
  meeters_.push_back({.message = message, .request = std::move(request)});
  if (!is_complete) return;
  for (Waiting& one : meeters_) give(one.request, one.message.ticket, StoreAnswer::Outcome::kDone);
  meeters_.clear();
}

void Space::leave(const StoreRequest& message, Request& request) {
  require_desk();
  const std::lock_guard lock(desk_);
  const auto found = seats_.find(message.replica);
  if (found != seats_.end() && found->second.incarnation == message.incarnation) {
    for (const std::int64_t ticket : message.done) dealer_.done(message.replica, ticket);
    dealer_.leave(message.replica);
    serve();
  }
  answer(request, {});
}

void Space::gone(std::uint64_t connection) {
  const std::lock_guard lock(desk_);
  for (const auto& [replica, seat] : seats_)
    if (seat.connection == connection) dealer_.leave(replica);
  serve();
}

}  // namespace distbelief::server
