#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <thread>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/server/client/client_connection.h"
#include "distbelief/server/client/client_handle.h"

// The replica's side of requests to many slices at once: sent first, waited for later.
namespace distbelief::server {

using comm::StoreAnswer;
using Outcome = comm::StoreAnswer::Outcome;

namespace {

constexpr std::chrono::milliseconds kLookWhetherToGoOn{20};
constexpr std::chrono::milliseconds kBetweenSignsOfLife{1000};

}  // namespace

// One message of a slice at a time uses its shared memory; others go over the stream.
Client::Room Client::take_room(Server& server, const Part& part) {
  const std::span<std::byte> shared = server.exchange->shared();
  if (part.slice < first_slice() || part.slice >= end_slice() || shared.empty()) return {};
  if (!server.rooms_in_use->insert(part.slice).second) return {};
  const std::size_t begin = offset(part.slice) - offset(first_slice());
  return {.bytes = shared.subspan(begin * sizeof(float), length(part.slice) * sizeof(float)),
          .slice = part.slice,
          .in_use = server.rooms_in_use};
}

Client::Sent Client::send(Part& part) {
  Server* const server = holder(part);
  if (server == nullptr) throw Error(ErrorCode::kUnavailable, "the server is gone");
  if (server->space == 0) open(*server, nullptr);
  part.message.space = server->space;
  if (part.slice >= 0) part.message.slice = part.slice;
  std::span<const std::byte> payload = part.payload;
  std::span<std::byte> into = part.into;
  Sent sent{.room = take_room(*server, part)};
  if (const std::span<std::byte> room = sent.room.bytes; !room.empty()) {
    if (!payload.empty()) {
      std::memcpy(room.data(), payload.data(), payload.size());
      payload = room;
    }
    if (!into.empty()) into = room;
  }
  try {
    comm::ExchangeClient& exchange = part.slice < 0 ? *server->exchange : server->for_slice();
    sent.pending = exchange.send(comm::encode(part.message), payload, into);
  } catch (const Error&) {
    sent.room.give_back();
    throw;
  }
  return sent;
}

// For a wait without its own deadline: other replicas' work may take long, but servers that live answer.
void Client::require_going_on() {
  if (options_.goes_on && !options_.goes_on())
    throw Error(ErrorCode::kTimeout, "the wait for a parameter server was broken off");
  const Clock::time_point now = Clock::now();
  if (now >= next_look_) {
    look_for_map();
    next_look_ = Clock::now() + std::min(kBetweenSignsOfLife, options_.deadline / 4);
  }
  if (now - heard_ > options_.deadline)
    throw Error(ErrorCode::kUnavailable,
                fmt::format("no parameter server has answered for {} ms", options_.deadline.count()));
}

comm::Answer Client::await(comm::ExchangeClient::Pending& pending, Clock::duration patience) {
  if (patience == kForEver)
    while (!pending.ready_within(kLookWhetherToGoOn)) require_going_on();
  comm::Answer answer = pending.wait(std::chrono::duration_cast<std::chrono::milliseconds>(patience));
  heard_ = Clock::now();
  return answer;
}

Client::Flight Client::start(std::vector<Part> parts) {
  Flight flight{.parts = std::move(parts)};
  flight.answers.resize(flight.parts.size());
  std::vector<std::size_t> all(flight.parts.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  launch(flight, all);
  return flight;
}

void Client::launch(Flight& flight, const std::vector<std::size_t>& parts) {
  for (const std::size_t part : parts) try {
      flight.sent.push_back(send(flight.parts[part]));
      flight.sent.back().part = part;
    } catch (const Error& error) {
      if (!is_worth_another_try(error)) throw;
      flight.failed.push_back(part);
      flight.why = error;
    }
}

// A room whose message was not answered in time may still be written to, and is not reused.
void Client::collect(Flight& flight, Clock::duration patience) {
  for (Sent& sent : flight.sent) try {
      const Part& part = flight.parts[sent.part];
      flight.answers[sent.part] = comm::decode_answer(await(sent.pending, patience).header);
      if (!sent.room.bytes.empty() && !part.into.empty())
        std::memcpy(part.into.data(), sent.room.bytes.data(), part.into.size());
      sent.room.give_back();
    } catch (const Error& error) {
      if (!is_worth_another_try(error)) throw;
      sent.room.give_back();
      flight.failed.push_back(sent.part);
      flight.why = error;
    }
  flight.sent.clear();
}

// Blocks until all are answered; repeats requests whose server is lost or has handed its slices over.
void Client::settle(Flight& flight, Clock::duration patience) {
  const Clock::time_point begin = heard_ = Clock::now();
  for (;;) {
    collect(flight, patience);
    if (flight.failed.empty()) break;
    if (Clock::now() - begin > patience) throw without_answer(*flight.why);
    if (patience == kForEver) require_going_on();
    if (!look_for_map()) std::this_thread::sleep_for(kLookAgain);
    std::vector<std::size_t> failed = std::exchange(flight.failed, {});
    // One order for all replicas: none waits for slices that others hold back.
    std::ranges::sort(failed);
    launch(flight, failed);
  }
  // A newer map exists: its servers may be the only ones left when it is needed.
  const auto is_newer = [&](const StoreAnswer& answer) { return answer.epoch > map_.epoch; };
  if (std::ranges::any_of(flight.answers, is_newer)) look_for_map();
}

std::vector<StoreAnswer> Client::exchange(std::vector<Part> parts, Clock::duration patience) {
  Flight flight = start(std::move(parts));
  settle(flight, patience);
  return std::move(flight.answers);
}

StoreAnswer Client::exchange_one(Part part, Clock::duration patience) {
  std::vector<Part> parts;
  parts.push_back(std::move(part));
  return exchange(std::move(parts), patience)[0];
}

std::vector<std::int32_t> Client::in_slice(const std::vector<std::int32_t>& parameters,
                                           std::int64_t slice) const {
  std::vector<std::int32_t> found;
  for (const std::int32_t parameter : parameters) {
    const comm::SpaceSpec::Stretch& stretch = options_.spec.parameters[std::size_t(parameter)];
    const bool meets =
        stretch.begin < offset(slice) + length(slice) && offset(slice) < stretch.begin + stretch.count;
    if (meets) found.push_back(parameter);
  }
  return found;
}

comm::SpaceSpec::Stretch Client::elements_of(Slices slices) const {
  const std::size_t all = options_.spec.elements, begin = std::min(all, offset(slices.begin));
  return {.begin = begin, .count = std::min(all, offset(slices.end)) - begin};
}

Client::Handle Client::handle_of(Slices slices, std::vector<Part> parts, std::span<float> values) {
  return {*this, slices, std::make_unique<Flight>(start(std::move(parts))), values};
}

Client::Handle Client::start_push(const Push& push, std::span<const float> gradients,
                                  std::optional<Slices> of) {
  return start_push_pull(push, gradients, {}, of);
}

Client::Handle Client::start_push_pull(const Push& push, std::span<const float> gradients,
                                       std::span<float> values, std::optional<Slices> of) {
  const Slices slices = of.value_or(share());
  std::vector<Part> parts;
  for (std::int64_t slice = slices.begin; slice < slices.end; ++slice) {
    const std::size_t here = offset(slice) - offset(slices.begin);
    Part& part = parts.emplace_back(Part{.message = message(Kind::kPush), .slice = slice});
    part.message.ticket = push.ticket;
    part.message.base = versions_[std::size_t(slice)];
    part.message.lr = push.lr;
    part.message.first_lane = push.first_lane;
    part.message.end_lane = push.end_lane;
    part.message.samples = push.samples;
    part.message.step_samples = push.step_samples;
    part.message.wants_values = !values.empty();
    part.message.untouched = in_slice(push.untouched, slice);
    part.message.loss = push.loss;
    part.payload = std::as_bytes(gradients.subspan(here, length(slice)));
    if (!values.empty()) part.into = std::as_writable_bytes(values.subspan(here, length(slice)));
  }
  return handle_of(slices, std::move(parts), values);
}

Client::Handle Client::start_pull(std::span<float> values, std::optional<std::int64_t> version,
                                  std::optional<Slices> of) {
  const Slices slices = of.value_or(share());
  std::vector<Part> parts;
  for (std::int64_t slice = slices.begin; slice < slices.end; ++slice) {
    Part& part = parts.emplace_back(Part{.message = message(Kind::kPull), .slice = slice});
    part.message.base = version.value_or(0);
    part.into = std::as_writable_bytes(values.subspan(offset(slice) - offset(slices.begin), length(slice)));
  }
  return handle_of(slices, std::move(parts), values);
}

bool Client::push(const Push& push, std::span<const float> gradients) {
  return start_push(push, gradients).wait().repeated;
}

bool Client::push_pull(const Push& push, std::span<const float> gradients, std::span<float> values) {
  return start_push_pull(push, gradients, values).wait().repeated;
}

std::int64_t Client::pull(std::span<float> values, std::optional<std::int64_t> version) {
  return start_pull(values, version).wait().version;
}

Client::Handle::Handle(Client& client, Slices slices, std::unique_ptr<Flight> flight, std::span<float> values)
    : client_(&client),
      slices_(slices),
      flight_(std::move(flight)),
      values_(values) {}

Client::Handle::Handle(Handle&&) noexcept = default;

Client::Handle& Client::Handle::operator=(Handle&& other) noexcept {
  std::swap(client_, other.client_);
  std::swap(slices_, other.slices_);
  std::swap(flight_, other.flight_);
  std::swap(values_, other.values_);
  return *this;
}

Client::Handle::~Handle() {
  if (!flight_) return;
  for (Sent& sent : flight_->sent)
    if (sent.pending.ready()) sent.room.give_back();
}

bool Client::Handle::ready() const {
  return flight_ && std::ranges::all_of(flight_->sent, [](const Sent& sent) { return sent.pending.ready(); });
}

Client::Handle::Result Client::Handle::wait() {
  DISTBELIEF_INVARIANT(flight_ != nullptr);
  const std::unique_ptr<Flight> flight = std::move(flight_);
  client_->settle(*flight, client_->options_.deadline);
  Result result{.version = std::numeric_limits<std::int64_t>::max()};
  for (std::size_t i = 0; i < flight->answers.size(); ++i) {
    const StoreAnswer& answer = flight->answers[i];
    const std::size_t slice = std::size_t(slices_.begin) + i;
    const bool pushed = flight->parts[i].message.kind == Kind::kPush;
    result.repeated |= answer.outcome == Outcome::kRepeated || answer.outcome == Outcome::kLate;
    result.version = std::min(result.version, answer.version);
    if (pushed) client_->answered_[slice] = answer.version;
    if (pushed && answer.outcome == Outcome::kLate)
      client_->late_.insert(std::int64_t(slice));
    else if (pushed)
      client_->late_.erase(std::int64_t(slice));
    if (!pushed || !values_.empty()) client_->versions_[slice] = answer.version;
  }
  return result;
}

}  // namespace distbelief::server
