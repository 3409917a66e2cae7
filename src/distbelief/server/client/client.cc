#include "distbelief/server/client/client.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/server/client/client_connection.h"

namespace distbelief::server {

using comm::kSliceElements;
using comm::StoreAnswer;
using comm::StoreRequest;
using Outcome = comm::StoreAnswer::Outcome;

namespace {

constexpr std::chrono::milliseconds kMapDeadline{2000};
constexpr std::chrono::seconds kBetweenReconnects{1};
constexpr std::chrono::milliseconds kNear{10}, kFar{250};  // to a server that was there a moment ago
constexpr int kFirstStranger = kNobody - 1;  // downwards: placeholder numbers of unknown servers

}  // namespace

Client::~Client() = default;
Client::Client(Client&&) noexcept = default;

Client::Client(Options options, const float* initial)
    : options_(std::move(options)),
      versions_(options_.spec.slices()),
      answered_(options_.spec.slices()) {
  const Clock::time_point give_up = Clock::now() + options_.deadline;
  const std::vector<comm::ControlAddress> present =
      options_.find_servers ? options_.find_servers() : std::vector<comm::ControlAddress>();
  connect_to(present.empty() ? options_.servers : present, kMapDeadline);
  await_map(give_up);
  for (const auto& [id, server] : servers_) open(*server, initial);
  has_joined_ = true;
}

StoreRequest Client::message(Kind kind) const {
  return {.kind = kind, .replica = options_.replica, .incarnation = options_.incarnation, .clock = clock_};
}

std::size_t Client::length(std::int64_t slice) const {
  return std::min(kSliceElements, std::size_t(options_.spec.elements) - offset(slice));
}

Client::Server& Client::connect(int id, const std::string& target, std::chrono::milliseconds deadline) {
  comm::ControlAddress address = options_.servers.front();
  address.target = target;
  auto server = std::make_unique<Server>();
  const std::size_t room = std::size_t(end_slice() - first_slice()) * kSliceElements * sizeof(float) +
                           (options_.spec.tables.empty() ? 0 : kRowRoomBytes);
  const comm::ExchangeClient::Options connection{.address = address,
                                                 .name = "replica " + std::to_string(options_.replica),
                                                 .shared_bytes = options_.shares_memory && id >= 0 ? room : 0,
                                                 .connect_deadline = deadline,
                                                 .send_deadline = options_.deadline};
  server->exchange = std::make_unique<comm::ExchangeClient>(connection);
  const bool is_near = target.starts_with("unix:");
  while (id >= 0 && !is_near && server->more.size() + 1 < kFarConnections)
    server->more.push_back(std::make_unique<comm::ExchangeClient>(connection));
  return *(servers_[id] = std::move(server));
}

bool Client::is_connected() const {
  return std::ranges::any_of(servers_,
                             [](const auto& server) { return server.second->exchange->connected(); });
}

// The error after the deadline, with advice where no known server answers.
Error Client::without_answer(const Error& why) const {
  if (is_connected()) return why;
  return {why.code(), why.message() +
                          "; none of the parameter servers that this client knows is there: "
                          "if others have taken their place, join again with their addresses"};
}

// The addresses have no known server numbers yet: the servers are asked for the map, which names them.
void Client::connect_to(const std::vector<comm::ControlAddress>& addresses,
                        std::chrono::milliseconds deadline) {
  std::optional<Error> why;
  for (std::size_t i = 0; i < addresses.size(); ++i) try {
      connect(kFirstStranger - int(i), addresses[i].target, deadline);
    } catch (const Error& error) {  // lost meanwhile, perhaps
      if (!is_worth_another_try(error)) throw;
      spdlog::info("{}: {}", addresses[i].target, error.what());
      why = error;
    }
  if (why && !is_connected()) throw *why;
}

void Client::adopt(const ServerMap& map) {
  map_ = map;
  std::erase_if(servers_, [&](const auto& server) { return !map.has(server.first); });
  for (const ServerMap::Server& server : map.servers)
    if (!servers_.contains(server.id)) try {
        Server& known = connect(server.id, map.target_of(server.id, options_.host), kMapDeadline);
        // A server that may take over must know this replica; those of the first map are opened with values.
        if (has_joined_) open(known, nullptr);
      } catch (const Error& error) {  // the next map will not have it
        spdlog::info("server {}: {}", server.id, error.what());
      }
}

// Reconnects to servers that may live although the connection was lost, as after a broken link. A dead server
// must not keep the replica from hearing of its successor.
void Client::reconnect() {
  if (!has_joined_ || Clock::now() < next_reconnect_) return;
  next_reconnect_ = Clock::now() + kBetweenReconnects;
  for (const ServerMap::Server& server : map_.servers) {
    const auto known = servers_.find(server.id);
    if (known != servers_.end() && known->second->is_connected()) continue;
    const std::string& target = map_.target_of(server.id, options_.host);
    try {
      open(connect(server.id, target, target.starts_with("unix:") ? kNear : kFar), nullptr);
    } catch (const Error& error) {
      spdlog::debug("server {}: {}", server.id, error.what());
    }
  }
  if (is_connected() || !options_.find_servers) return;
  try {
    connect_to(options_.find_servers(), kFar);
  } catch (const Error& error) {
    spdlog::debug("{}", error.what());
  }
}

// Asks every server once. Returns whether a newer map was found.
bool Client::look_for_map() {
  struct Question {
    std::string text;  // of the answer
    comm::ExchangeClient::Pending pending{};
  };
  std::map<int, Question> questions;
  std::optional<ServerMap> newest;
  for (const auto& [id, server] : servers_) {
    if (!server->exchange->connected()) continue;
    Question& question = questions[id];
    question.text.resize(comm::kMaxHeaderBytes);
    try {
      question.pending = server->exchange->send(comm::encode(message(Kind::kMap)), {},
                                                std::as_writable_bytes(std::span(question.text)));
    } catch (const Error& error) {
      questions.erase(id);
      spdlog::debug("server {}: {}", id, error.what());
    }
  }
  const Clock::time_point give_up = Clock::now() + kMapDeadline;
  for (auto& [id, question] : questions) try {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(give_up - Clock::now());
      const comm::Answer answer = question.pending.wait(std::max(left, std::chrono::milliseconds(0)));
      heard_ = Clock::now();
      const ServerMap map = map_from_text(question.text.substr(0, answer.bytes));
      if (map.epoch > (newest ? newest->epoch : map_.epoch)) newest = map;
    } catch (const Error& error) {
      spdlog::debug("server {}: {}", id, error.what());
    }
  if (newest)
    adopt(*newest);
  else
    reconnect();
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
  // Backups know the job only once it is opened there too: those with larger numbers may not yet.
  for (const auto& [id, other] : servers_)
    if (other->space == 0) open(*other, nullptr);
  exchange(std::move(parts), options_.deadline);
}

Client::Server* Client::holder(const Part& part) {
  const int id = part.slice < 0 ? map_.desk().primary : map_.part_of(part.slice).primary;
  const auto found = servers_.find(id);
  return found == servers_.end() ? nullptr : found->second.get();
}

std::int64_t Client::meet(std::int64_t step, std::int64_t first_lane, std::int64_t end_lane,
                          const std::vector<std::int32_t>& empty, std::span<const float> rows,
                          std::span<float> mean) {
  // A power of two of lanes, so that they form a node of the tree.
  const std::int64_t lanes = end_lane - first_lane;
  std::int64_t together = lanes;
  while (together > 1 && std::size_t(together) * mean.size() * sizeof(float) > comm::kMaxPayloadBytes)
    together /= 2;
  // All are answered when the step is complete: more messages than may be in flight would wait for each
  // other.
  if (lanes / together > comm::ExchangeClient::Options{}.in_flight)
    throw Error(ErrorCode::kBadInput,
                "a replica has " + std::to_string(lanes) + " lanes with " + std::to_string(mean.size()) +
                    " running statistics each, too many for mode sync; lower parallel.lanes");
  std::vector<float> ignored(mean.size());
  std::vector<Part> parts;
  for (std::int64_t lane = first_lane; lane < end_lane; lane += together) {
    Part& part = parts.emplace_back(Part{.message = message(Kind::kMeet)});
    part.message.ticket = step;
    part.message.first_lane = lane;
    part.message.end_lane = lane + together;
    part.message.untouched = empty;
    part.payload = std::as_bytes(
        rows.subspan(std::size_t(lane - first_lane) * mean.size(), std::size_t(together) * mean.size()));
    // All get the same mean; one of them stores it.
    part.into = std::as_writable_bytes(lane == first_lane ? mean : std::span<float>(ignored));
  }
  return exchange(std::move(parts), options_.deadline)[0].version;
}

void Client::meet_again(std::int64_t step, std::span<float> mean) {
  Part part{.message = message(Kind::kMeet), .into = std::as_writable_bytes(mean)};
  part.message.ticket = step;
  exchange_one(std::move(part), options_.deadline);
}

}  // namespace distbelief::server
