#include "distbelief/server/client.h"

#include <algorithm>
#include <cstring>

#include "distbelief/base/error.h"

namespace distbelief::server {

using comm::kSliceElements;
using comm::StoreAnswer;
using comm::StoreRequest;
using Kind = comm::StoreRequest::Kind;
using Outcome = comm::StoreAnswer::Outcome;

Client::Client(Options options, const float* initial)
    : options_(std::move(options)),
      versions_(options_.spec.slices()) {
  const std::vector<KeyRange> ranges = spread_slices(std::int64_t(slices()), int(options_.servers.size()));
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::size_t room = std::size_t(ranges[i].end - ranges[i].begin) * kSliceElements * sizeof(float);
    servers_.push_back({.exchange = std::make_unique<comm::ExchangeClient>(
                            comm::ExchangeClient::Options{.address = options_.servers[i],
                                                          .shared_bytes = options_.shares_memory ? room : 0,
                                                          .connect_deadline = options_.deadline,
                                                          .send_deadline = options_.deadline}),
                        .range = ranges[i]});
  }
  open(initial);
}

StoreRequest Client::message(Kind kind, const Server& server) const {
  return {
      .kind = kind, .space = server.space, .replica = options_.replica, .incarnation = options_.incarnation};
}

Client::Server& Client::server_of(std::int64_t slice) {
  return *std::ranges::find_if(servers_, [&](const Server& server) { return server.range.contains(slice); });
}

std::size_t Client::length(std::int64_t slice) const {
  return std::min(kSliceElements, std::size_t(options_.spec.elements) - offset(slice));
}

// Where the server reads a slice's gradient and writes its values, if it is on this host.
std::span<std::byte> Client::shared_room(Server& server, std::int64_t slice) {
  const std::span<std::byte> shared = server.exchange->shared();
  if (shared.empty()) return {};
  return shared.subspan(std::size_t(slice - server.range.begin) * kSliceElements * sizeof(float),
                        length(slice) * sizeof(float));
}

void Client::open(const float* initial) {
  for (Server& server : servers_) {
    StoreRequest request = message(Kind::kOpen, server);
    const std::string spec = comm::encode(options_.spec);
    const StoreAnswer answer =
        comm::decode_answer(server.exchange->send(comm::encode(request), std::as_bytes(std::span(spec)), {})
                                .wait(options_.deadline)
                                .header);
    server.space = answer.space;
    if (&server == &servers_[0]) meeting_step_ = answer.version;
    if (answer.outcome != Outcome::kWanted) continue;
    std::vector<Handle> handles;
    for (std::int64_t slice = server.range.begin; slice < server.range.end; ++slice) {
      request = message(Kind::kFill, server);
      request.slice = slice;
      handles.push_back(server.exchange->send(
          comm::encode(request), std::as_bytes(std::span(initial + offset(slice), length(slice))), {}));
    }
    for (Handle& handle : handles) handle.wait(options_.deadline);
  }
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

bool Client::push_pull(const Push& push, std::span<const float> gradients, std::span<float> values) {
  struct Sent {
    Handle handle;
    std::span<std::byte> room;
  };
  std::vector<Sent> sent;
  sent.reserve(slices());
  for (std::int64_t slice = 0; slice < std::int64_t(slices()); ++slice) {
    Server& server = server_of(slice);
    StoreRequest request = message(Kind::kPush, server);
    request.slice = slice;
    request.ticket = push.ticket;
    request.base = versions_[std::size_t(slice)];
    request.lr = push.lr;
    request.first_lane = push.first_lane;
    request.end_lane = push.end_lane;
    request.samples = push.samples;
    request.step_samples = push.step_samples;
    request.untouched = in_slice(push.untouched, slice);
    request.wants_values = !values.empty();
    std::span<const std::byte> payload = std::as_bytes(gradients.subspan(offset(slice), length(slice)));
    const std::span<std::byte> room = shared_room(server, slice);
    if (!room.empty()) {
      std::memcpy(room.data(), payload.data(), payload.size());
      payload = room;
    }
    std::span<std::byte> into = values.empty()
                                    ? std::span<std::byte>()
                                    : std::as_writable_bytes(values.subspan(offset(slice), length(slice)));
    if (!room.empty() && !values.empty()) into = room;
    sent.push_back({.handle = server.exchange->send(comm::encode(request), payload, into), .room = room});
  }
  bool repeated = false;
  for (std::int64_t slice = 0; slice < std::int64_t(slices()); ++slice) {
    Sent& one = sent[std::size_t(slice)];
    const StoreAnswer answer = comm::decode_answer(one.handle.wait(options_.deadline).header);
    repeated |= answer.outcome == Outcome::kRepeated || answer.outcome == Outcome::kLate;
    if (values.empty()) continue;
    versions_[std::size_t(slice)] = answer.version;
    if (!one.room.empty()) std::memcpy(values.data() + offset(slice), one.room.data(), one.room.size());
  }
  return repeated;
}

std::int64_t Client::pull(std::span<float> values, std::optional<std::int64_t> version) {
  std::vector<Handle> handles;
  for (std::int64_t slice = 0; slice < std::int64_t(slices()); ++slice) {
    Server& server = server_of(slice);
    StoreRequest request = message(Kind::kPull, server);
    request.slice = slice;
    request.base = version.value_or(0);
    std::span<std::byte> into = shared_room(server, slice);
    if (into.empty()) into = std::as_writable_bytes(values.subspan(offset(slice), length(slice)));
    handles.push_back(server.exchange->send(comm::encode(request), {}, into));
  }
  for (std::int64_t slice = 0; slice < std::int64_t(slices()); ++slice) {
    const StoreAnswer answer =
        comm::decode_answer(handles[std::size_t(slice)].wait(options_.deadline).header);
    versions_[std::size_t(slice)] = answer.version;
    const std::span<std::byte> room = shared_room(server_of(slice), slice);
    if (!room.empty()) std::memcpy(values.data() + offset(slice), room.data(), room.size());
  }
  return *std::ranges::min_element(versions_);
}

Client::Handle Client::ask_ticket(const std::vector<std::int64_t>& done) {
  StoreRequest request = message(Kind::kTake, servers_[0]);
  request.done = done;
  return servers_[0].exchange->send(comm::encode(request), {}, {});
}

std::optional<std::int64_t> Client::ticket_of(Handle& handle) {
  // However long the others take with what is left.
  const StoreAnswer answer = comm::decode_answer(handle.wait(std::chrono::hours(24 * 365)).header);
  if (answer.outcome == Outcome::kEnd) return std::nullopt;
  return answer.ticket;
}

void Client::begin_step(const std::vector<std::int64_t>& done) {
  StoreRequest request = message(Kind::kBegin, servers_[0]);
  request.done = done;
  servers_[0].exchange->send(comm::encode(request), {}, {}).wait(std::chrono::hours(24 * 365));
}

void Client::meet(std::int64_t step, std::int64_t first_lane, std::int64_t end_lane,
                  const std::vector<std::int32_t>& empty, std::span<const float> rows,
                  std::span<float> mean) {
  std::vector<float> ignored(mean.size());
  std::vector<Handle> handles;
  for (std::int64_t lane = first_lane; lane < end_lane; ++lane) {
    StoreRequest request = message(Kind::kMeet, servers_[0]);
    request.ticket = step;
    request.first_lane = lane;
    request.end_lane = lane + 1;
    request.untouched = empty;
    const auto row = rows.subspan(std::size_t(lane - first_lane) * mean.size(), mean.size());
    // All get the same mean: one of them brings it here.
    const std::span<float> into = lane == first_lane ? mean : std::span<float>(ignored);
    handles.push_back(
        servers_[0].exchange->send(comm::encode(request), std::as_bytes(row), std::as_writable_bytes(into)));
  }
  for (Handle& handle : handles) handle.wait(options_.deadline);
}

void Client::meet_again(std::int64_t step, std::span<float> mean) {
  StoreRequest request = message(Kind::kMeet, servers_[0]);
  request.ticket = step;
  servers_[0].exchange->send(comm::encode(request), {}, std::as_writable_bytes(mean)).wait(options_.deadline);
}

void Client::leave(const std::vector<std::int64_t>& done) {
  StoreRequest request = message(Kind::kLeave, servers_[0]);
  request.done = done;
  servers_[0].exchange->send(comm::encode(request), {}, {}).wait(options_.deadline);
}

}  // namespace distbelief::server
