#include "distbelief/server/client.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <thread>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/server/client_connection.h"

namespace distbelief::server {

using comm::kSliceElements;
using comm::StoreAnswer;
using comm::StoreRequest;
using Outcome = comm::StoreAnswer::Outcome;

namespace {

constexpr std::chrono::milliseconds kMapDeadline{2000};
constexpr std::chrono::microseconds kLookWhetherToGoOn{500};
constexpr std::chrono::microseconds kLookForAnswers{50};

}  // namespace

Client::~Client() = default;
Client::Client(Client&&) noexcept = default;

Client::Client(Options options, const float* initial)
    : options_(std::move(options)),
      versions_(options_.spec.slices()),
      answered_(options_.spec.slices()) {
  // Nobody is known by number yet.
  const Clock::time_point give_up = Clock::now() + options_.deadline;
  for (std::size_t i = 0; i < options_.servers.size(); ++i) try {
      connect(-2 - int(i), options_.servers[i].target);
    } catch (const Error& error) {  // it may have been lost meanwhile
      if (!is_worth_another_try(error) || i + 1 - servers_.size() == options_.servers.size()) throw;
      spdlog::info("{}: {}", options_.servers[i].target, error.what());
    }
  await_map(give_up);
  std::erase_if(servers_, [](const auto& server) { return server.first < -1; });
  for (const auto& [id, server] : servers_) open(*server, initial);
}

StoreRequest Client::message(Kind kind) const {
  return {.kind = kind, .replica = options_.replica, .incarnation = options_.incarnation, .clock = clock_};
}

std::size_t Client::length(std::int64_t slice) const {
  return std::min(kSliceElements, std::size_t(options_.spec.elements) - offset(slice));
}

Client::Server& Client::connect(int id, const std::string& target) {
  comm::ControlAddress address = options_.servers.front();
  address.target = target;
  auto server = std::make_unique<Server>();
  const std::size_t room = std::size_t(end_slice() - first_slice()) * kSliceElements * sizeof(float) +
                           (options_.spec.tables.empty() ? 0 : kRowRoomBytes);
  server->exchange = std::make_unique<comm::ExchangeClient>(
      comm::ExchangeClient::Options{.address = address,
                                    .name = "replica " + std::to_string(options_.replica),
                                    .shared_bytes = options_.shares_memory && id >= 0 ? room : 0,
                                    .connect_deadline = kMapDeadline,
                                    .send_deadline = options_.deadline});
  return *(servers_[id] = std::move(server));
}

void Client::adopt(const ServerMap& map) {
  map_ = map;
  std::erase_if(servers_, [&](const auto& server) { return server.first >= 0 && !map.has(server.first); });
  for (const ServerMap::Server& server : map.servers)
    if (!servers_.contains(server.id)) try {
        connect(server.id, map.target_of(server.id, options_.host));
      } catch (const Error& error) {  // the next map will not have it
        spdlog::info("server {}: {}", server.id, error.what());
      }
}

// Asks everyone once. true: a newer map was found.
bool Client::look_for_map() {
  std::optional<ServerMap> newest;
  for (const auto& [id, server] : servers_) {
    if (!server->exchange->connected()) continue;
    try {
      std::string text(comm::kMaxHeaderBytes, ' ');
      const comm::Answer answer =
          server->exchange
              ->send(comm::encode(message(Kind::kMap)), {}, std::as_writable_bytes(std::span(text)))
              .wait(kMapDeadline);
      text.resize(answer.bytes);
      const ServerMap map = map_from_text(text);
      if (map.epoch > (newest ? newest->epoch : map_.epoch)) newest = map;
    } catch (const Error& error) {
      spdlog::debug("server {}: {}", id, error.what());
    }
  }
  if (newest) adopt(*newest);
  return newest.has_value();
}

void Client::await_map(Clock::time_point give_up) {
  while (!look_for_map()) {
    if (Clock::now() > give_up)
      throw Error(ErrorCode::kUnavailable, "no parameter server says who has the parameters");
    std::this_thread::sleep_for(kLookAgain);
  }
}

void Client::open(Server& server, const float* initial) {
  const std::string spec = comm::encode(options_.spec);
  const StoreAnswer answer = comm::decode_answer(
      server.exchange->send(comm::encode(message(Kind::kOpen)), std::as_bytes(std::span(spec)), {})
          .wait(options_.deadline)
          .header);
  server.space = answer.space;
  const bool has_desk =
      servers_.contains(map_.desk().primary) && servers_.at(map_.desk().primary).get() == &server;
  if (has_desk) meeting_step_ = answer.version;
  if (answer.outcome != Outcome::kWanted || initial == nullptr) return;
  std::vector<Part> parts;
  for (std::int64_t slice = 0; slice < std::int64_t(slices()); ++slice) {
    const int primary = map_.part_of(slice).primary;
    if (!servers_.contains(primary) || servers_.at(primary).get() != &server) continue;
    Part& part = parts.emplace_back(Part{.message = message(Kind::kFill), .slice = slice});
    part.payload = std::as_bytes(std::span(initial + offset(slice), length(slice)));
  }
  // Backups have the space only when they were opened too: those with larger numbers may not yet.
  for (const auto& [id, other] : servers_)
    if (other->space == 0) open(*other, nullptr);
  exchange(std::move(parts), options_.deadline);
}

std::span<std::byte> Client::shared_room(const Part& part) {
  Server* const server = holder(part);
  if (part.slice < first_slice() || part.slice >= end_slice() || server == nullptr ||
      server->exchange->shared().empty())
    return {};
  return server->exchange->shared().subspan(offset_here(part.slice) * sizeof(float),
                                            length(part.slice) * sizeof(float));
}

Client::Server* Client::holder(const Part& part) {
  const int id = part.slice < 0 ? map_.desk().primary : map_.part_of(part.slice).primary;
  const auto found = servers_.find(id);
  return found == servers_.end() ? nullptr : found->second.get();
}

comm::ExchangeClient::Pending Client::send(Part& part) {
  Server* const server = holder(part);
  if (server == nullptr) throw Error(ErrorCode::kUnavailable, "the server is gone");
  if (server->space == 0) open(*server, nullptr);
  part.message.space = server->space;
  if (part.slice >= 0) part.message.slice = part.slice;
  std::span<const std::byte> payload = part.payload;
  std::span<std::byte> into = part.into;
  if (const std::span<std::byte> room = shared_room(part); !room.empty()) {
    if (!payload.empty()) {
      std::memcpy(room.data(), payload.data(), payload.size());
      payload = room;
    }
    if (!into.empty()) into = room;
  }
  return server->exchange->send(comm::encode(part.message), payload, into);
}

// Brings what came by shared memory where it belongs.
void Client::receive(const Part& part) {
  const std::span<std::byte> room = shared_room(part);
  if (!room.empty() && !part.into.empty()) std::memcpy(part.into.data(), room.data(), room.size());
}

void Client::require_going_on() const {
  if (options_.goes_on && !options_.goes_on())
    throw Error(ErrorCode::kTimeout, "the wait for a parameter server was broken off");
}

comm::Answer Client::await(comm::ExchangeClient::Pending& pending, Clock::duration patience) const {
  if (patience == kForEver && options_.goes_on)
    while (!pending.ready()) {
      require_going_on();
      std::this_thread::sleep_for(kLookWhetherToGoOn);
    }
  return pending.wait(std::chrono::duration_cast<std::chrono::milliseconds>(patience));
}

// All of them, again and again where a server is lost or has handed its slices over.
std::vector<StoreAnswer> Client::exchange(std::vector<Part> parts, Clock::duration patience) {
  std::vector<StoreAnswer> answers(parts.size());
  std::vector<std::size_t> left(parts.size());
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = i;
  const Clock::time_point give_up = Clock::now() + patience;
  while (!left.empty()) {
    std::vector<std::size_t> failed;
    std::optional<Error> why;
    const auto note = [&](std::size_t i, const Error& error) {
      if (!is_worth_another_try(error)) throw error;
      failed.push_back(i);
      why = error;
    };
    std::vector<std::pair<std::size_t, comm::ExchangeClient::Pending>> sent;
    for (const std::size_t i : left) try {
        sent.emplace_back(i, send(parts[i]));
      } catch (const Error& error) {
        note(i, error);
      }
    for (auto& [i, pending] : sent) try {
        answers[i] = comm::decode_answer(await(pending, patience).header);
        receive(parts[i]);
      } catch (const Error& error) {
        note(i, error);
      }
    left = std::move(failed);
    if (left.empty()) break;
    if (Clock::now() > give_up) throw *why;
    if (patience == kForEver) require_going_on();
    if (!look_for_map()) std::this_thread::sleep_for(kLookAgain);
  }
  // There is a newer map: those who are in it may be the only ones left when it is needed.
  const auto is_newer = [&](const StoreAnswer& answer) { return answer.epoch > map_.epoch; };
  if (std::ranges::any_of(answers, is_newer)) look_for_map();
  return answers;
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

comm::SpaceSpec::Stretch Client::own() const {
  const std::size_t all = options_.spec.elements, begin = std::min(all, offset(first_slice()));
  return {.begin = begin, .count = std::min(all, offset(end_slice())) - begin};
}

bool Client::push_pull(const Push& push, std::span<const float> gradients, std::span<float> values) {
  std::vector<Part> parts;
  parts.reserve(slices());
  for (std::int64_t slice = first_slice(); slice < end_slice(); ++slice) {
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
    part.payload = std::as_bytes(gradients.subspan(offset_here(slice), length(slice)));
    if (!values.empty())
      part.into = std::as_writable_bytes(values.subspan(offset_here(slice), length(slice)));
  }
  const std::vector<StoreAnswer> answers = exchange(std::move(parts), options_.deadline);
  bool repeated = false;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const std::size_t slice = std::size_t(first_slice()) + i;
    repeated |= answers[i].outcome == Outcome::kRepeated || answers[i].outcome == Outcome::kLate;
    answered_[slice] = answers[i].version;
    if (!values.empty()) versions_[slice] = answers[i].version;
  }
  return repeated;
}

std::int64_t Client::pull(std::span<float> values, std::optional<std::int64_t> version) {
  std::vector<Part> parts;
  for (std::int64_t slice = first_slice(); slice < end_slice(); ++slice) {
    Part& part = parts.emplace_back(Part{.message = message(Kind::kPull), .slice = slice});
    part.message.base = version.value_or(0);
    part.into = std::as_writable_bytes(values.subspan(offset_here(slice), length(slice)));
  }
  const std::vector<StoreAnswer> answers = exchange(std::move(parts), options_.deadline);
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    versions_[std::size_t(first_slice()) + i] = answers[i].version;
    least = std::min(least, answers[i].version);
  }
  return least;
}

Client::Asked Client::ask_ticket(const std::vector<std::int64_t>& done) {
  Part part{.message = message(Kind::kTake)};
  part.message.done = done;
  if (clock_ >= 0) clock_ += std::int64_t(done.size());
  Asked asked;
  asked.message_ = part.message;
  try {
    asked.pending_ = send(part);
    asked.is_sent_ = true;
  } catch (const Error& error) {  // asked again when it is waited for
    if (!is_worth_another_try(error)) throw;
  }
  return asked;
}

std::optional<std::int64_t> Client::ticket_of(Asked& asked) {
  StoreAnswer answer;
  try {
    if (!std::exchange(asked.is_sent_, false)) throw Error(ErrorCode::kUnavailable, "it was not asked");
    // However long the others take with what is left.
    answer = comm::decode_answer(await(asked.pending_, kForEver).header);
  } catch (const Error& error) {
    if (!is_worth_another_try(error)) throw;
    if (!look_for_map()) std::this_thread::sleep_for(kLookAgain);
    answer = exchange_one({.message = asked.message_}, kForEver);
  }
  return ticket_in(answer);
}

std::optional<std::int64_t> Client::ticket_in(const StoreAnswer& answer) {
  if (clock_ < 0) clock_ = answer.clock;
  if (answer.outcome == Outcome::kEnd) return std::nullopt;
  return answer.ticket;
}

void Client::ask_again(std::deque<Asked>& asked) {
  if (std::ranges::all_of(asked, &Asked::is_sent_)) return;
  if (!look_for_map()) std::this_thread::sleep_for(kLookAgain);
  for (Asked& one : asked) {
    if (one.is_sent_) continue;
    Part part{.message = one.message_};
    try {
      one.pending_ = send(part);
      one.is_sent_ = true;
    } catch (const Error& error) {
      if (!is_worth_another_try(error)) throw;
    }
  }
}

std::optional<std::int64_t> Client::next_ticket(std::deque<Asked>& asked) {
  for (;; std::this_thread::sleep_for(kLookForAnswers)) {
    for (auto one = asked.begin(); one != asked.end(); ++one) {
      if (!one->is_sent_ || !one->pending_.ready()) continue;
      one->is_sent_ = false;
      try {
        const StoreAnswer answer = comm::decode_answer(one->pending_.wait(options_.deadline).header);
        asked.erase(one);
        return ticket_in(answer);
      } catch (const Error& error) {
        if (!is_worth_another_try(error)) throw;
      }
    }
    ask_again(asked);
    require_going_on();
  }
}

void Client::begin_step(const std::vector<std::int64_t>& done) {
  Part part{.message = message(Kind::kBegin)};
  part.message.done = done;
  if (clock_ >= 0) clock_ += std::int64_t(done.size());
  exchange_one(std::move(part), kForEver);
}

void Client::meet(std::int64_t step, std::int64_t first_lane, std::int64_t end_lane,
                  const std::vector<std::int32_t>& empty, std::span<const float> rows,
                  std::span<float> mean) {
  std::vector<float> ignored(mean.size());
  std::vector<Part> parts;
  for (std::int64_t lane = first_lane; lane < end_lane; ++lane) {
    Part& part = parts.emplace_back(Part{.message = message(Kind::kMeet)});
    part.message.ticket = step;
    part.message.first_lane = lane;
    part.message.end_lane = lane + 1;
    part.message.untouched = empty;
    part.payload = std::as_bytes(rows.subspan(std::size_t(lane - first_lane) * mean.size(), mean.size()));
    // All get the same mean: one of them brings it here.
    part.into = std::as_writable_bytes(lane == first_lane ? mean : std::span<float>(ignored));
  }
  exchange(std::move(parts), options_.deadline);
}

void Client::meet_again(std::int64_t step, std::span<float> mean) {
  Part part{.message = message(Kind::kMeet), .into = std::as_writable_bytes(mean)};
  part.message.ticket = step;
  exchange_one(std::move(part), options_.deadline);
}

void Client::leave(const std::vector<std::int64_t>& done) {
  Part part{.message = message(Kind::kLeave)};
  part.message.done = done;
  exchange_one(std::move(part), options_.deadline);
}

}  // namespace distbelief::server
