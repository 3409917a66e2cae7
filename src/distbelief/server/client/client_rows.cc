#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <numeric>
#include <thread>
#include <utility>

#include "distbelief/compute/row_values.h"
#include "distbelief/server/client/client_connection.h"

// The replica's side of table rows: many in one message, which belongs to one server and to whole parts.
namespace distbelief::server {

using comm::StoreAnswer;
using comm::StoreRequest;

struct Client::RowMessage {
  int server = kNobody;
  std::uint64_t parts = 0;
  std::size_t rows = 0;
};

struct Client::RowFlight {
  RowMessage message;
  std::byte* into = nullptr;
  comm::ExchangeClient::Pending pending{};
};

// The requested rows in the order of messages: by part, then by id.
class Client::RowWork {
 public:
  StoreRequest message{};
  std::size_t width = 0;
  std::span<const std::uint64_t> ids{};
  const float* gradients = nullptr;  // push
  float* values = nullptr;           // pull
  std::vector<std::uint32_t> order{};
  std::array<std::size_t, kParts + 1> begin{};  // of each part, in `order`
  std::map<int, std::deque<RowFlight>> flights{};
  std::uint64_t failed = 0;  // parts
  std::optional<Error> why{};

  void sort();
  std::size_t rows_of(int part) const { return begin[std::size_t(part) + 1] - begin[std::size_t(part)]; }
  // Calls `each` with a row's number in the message and in the request.
  template <typename Each>
  void for_rows(const RowMessage& message, const Each& each) const {
    std::size_t row = 0;
    for (std::uint64_t left = message.parts; left != 0; left &= left - 1) {
      const auto part = std::size_t(std::countr_zero(left));
      for (std::size_t i = begin[part]; i < begin[part + 1]; ++i) each(row++, order[i]);
    }
  }
};

void Client::RowWork::sort() {
  std::vector<std::uint8_t> part(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    part[i] = std::uint8_t(compute::part_of_row(ids[i]));
    ++begin[std::size_t(part[i]) + 1];
  }
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  order.resize(ids.size());
  std::array<std::size_t, kParts + 1> next = begin;
  for (std::size_t i = 0; i < ids.size(); ++i) order[next[part[i]]++] = std::uint32_t(i);
  for (std::size_t p = 0; p < std::size_t(kParts); ++p)
    std::sort(order.begin() + std::ptrdiff_t(begin[p]), order.begin() + std::ptrdiff_t(begin[p + 1]),
              [&](std::uint32_t a, std::uint32_t b) { return ids[a] < ids[b]; });
}

// A push sends every part in one message, also parts without rows: the server then knows that it has had
// them.
std::vector<Client::RowMessage> Client::cut_rows(const RowWork& work, std::uint64_t parts) const {
  const std::size_t most = options_.spec.tables[std::size_t(work.message.table)].message_rows();
  const bool pushes = work.gradients != nullptr;
  std::map<int, RowMessage> growing;
  std::vector<RowMessage> cut;
  for (std::uint64_t left = parts; left != 0; left &= left - 1) {
    const int part = std::countr_zero(left);
    if (work.rows_of(part) > most)
      throw Error(
          ErrorCode::kBadInput,
          fmt::format("a step touches {} rows of one of {} parts of table {}, and a message takes {}; "
                      "lower train.batch_size",
                      work.rows_of(part), kParts, options_.spec.tables[std::size_t(work.message.table)].name,
                      most));
    if (!pushes && work.rows_of(part) == 0) continue;
    const int server = map_.parts[std::size_t(part)].primary;
    RowMessage& message = growing[server];
    if (message.rows + work.rows_of(part) > most) cut.push_back(std::exchange(message, {}));
    message.server = server;
    message.parts |= std::uint64_t{1} << part;
    message.rows += work.rows_of(part);
  }
  for (const auto& [server, message] : growing) cut.push_back(message);
  return cut;
}

void Client::send_rows(RowWork& work, RowMessage message) {
  const auto found = servers_.find(message.server);
  if (found == servers_.end()) throw Error(ErrorCode::kUnavailable, "the server is gone");
  Server& server = *found->second;
  if (server.space == 0) open(server, nullptr);
  std::deque<RowFlight>& flights = work.flights[message.server];
  if (flights.size() >= kRowRooms) settle_rows(work, message.server);
  if (server.exchange->shared().empty()) server.row_rooms.resize(kRowRoomBytes);
  std::byte* const rooms =
      server.exchange->shared().empty()
          ? server.row_rooms.data()
          : server.exchange->shared().data() + slices() * comm::kSliceElements * sizeof(float);
  std::byte* const payload = rooms + server.next_room * 2 * comm::kMaxPayloadBytes;
  server.next_room = (server.next_room + 1) % kRowRooms;
  auto* const ids = reinterpret_cast<std::uint64_t*>(payload);
  auto* const gradients = reinterpret_cast<float*>(payload + message.rows * sizeof(std::uint64_t));
  work.for_rows(message, [&](std::size_t row, std::size_t of) {
    ids[row] = work.ids[of];
    if (work.gradients != nullptr)
      std::memcpy(gradients + row * work.width, work.gradients + of * work.width, work.width * sizeof(float));
  });
  const std::size_t number_bytes = message.rows * work.width * sizeof(float);
  const std::size_t payload_bytes =
      message.rows * sizeof(std::uint64_t) + (work.gradients != nullptr ? number_bytes : 0);
  RowFlight flight{.message = message, .into = payload + comm::kMaxPayloadBytes};
  StoreRequest request = work.message;
  request.space = server.space;
  request.parts = message.parts;
  flight.pending = server.exchange->send(comm::encode(request), {payload, payload_bytes},
                                         {flight.into, work.values != nullptr ? number_bytes : 0});
  flights.push_back(std::move(flight));
}

// Settles the oldest message in flight to a server.
void Client::settle_rows(RowWork& work, int server) {
  RowFlight flight = std::move(work.flights[server].front());
  work.flights[server].pop_front();
  try {
    const StoreAnswer answer = comm::decode_answer(flight.pending.wait(options_.deadline).header);
    if (work.values != nullptr)
      work.for_rows(flight.message, [&](std::size_t row, std::size_t of) {
        std::memcpy(work.values + of * work.width, flight.into + row * work.width * sizeof(float),
                    work.width * sizeof(float));
      });
    work.message.epoch = std::max(work.message.epoch, answer.epoch);
  } catch (const Error& error) {
    if (!is_worth_another_try(error)) throw;
    work.failed |= flight.message.parts;
    work.why = error;
  }
}

void Client::run_rows(RowWork& work) {
  work.sort();
  const Clock::time_point give_up = Clock::now() + options_.deadline;
  for (std::uint64_t left = ~std::uint64_t{0}; left != 0; left = std::exchange(work.failed, 0)) {
    if (work.why) {
      if (Clock::now() > give_up) throw without_answer(*work.why);
      if (!look_for_map()) std::this_thread::sleep_for(kLookAgain);
    }
    for (const RowMessage& message : cut_rows(work, left)) try {
        send_rows(work, message);
      } catch (const Error& error) {
        if (!is_worth_another_try(error)) throw;
        work.failed |= message.parts;
        work.why = error;
      }
    for (auto& [server, flights] : work.flights)
      while (!flights.empty()) settle_rows(work, server);
  }
  if (work.message.epoch > map_.epoch) look_for_map();
}

void Client::pull_rows(int table, std::span<const std::uint64_t> ids, std::span<float> values) {
  RowWork work;
  work.message = message(Kind::kPullRows);
  work.message.table = table;
  work.width = options_.spec.tables.at(std::size_t(table)).width;
  work.ids = ids;
  work.values = values.data();
  if (!ids.empty()) run_rows(work);
}

void Client::push_rows(int table, std::int64_t ticket, double lr, std::span<const std::uint64_t> ids,
                       std::span<const float> gradients) {
  static constexpr float kNone = 0;
  RowWork work;
  work.message = message(Kind::kPushRows);
  work.message.table = table;
  work.message.ticket = ticket;
  work.message.lr = lr;
  work.width = options_.spec.tables.at(std::size_t(table)).width;
  work.ids = ids;
  work.gradients = gradients.empty() ? &kNone : gradients.data();
  run_rows(work);
}

StoreAnswer Client::ask_part(int number, StoreRequest message, std::span<const std::byte> payload,
                             std::span<std::byte> into) {
  const Clock::time_point give_up = Clock::now() + options_.deadline;
  for (;;) try {
      const auto found = servers_.find(map_.parts[std::size_t(number)].primary);
      if (found == servers_.end()) throw Error(ErrorCode::kUnavailable, "the server is gone");
      if (found->second->space == 0) open(*found->second, nullptr);
      message.space = found->second->space;
      comm::Answer answer =
          found->second->exchange->send(comm::encode(message), payload, into).wait(options_.deadline);
      StoreAnswer decoded = comm::decode_answer(answer.header);
      decoded.ticket = std::int64_t(answer.bytes);
      return decoded;
    } catch (const Error& error) {
      if (!is_worth_another_try(error)) throw;
      if (Clock::now() > give_up) throw without_answer(error);
      if (!look_for_map()) std::this_thread::sleep_for(kLookAgain);
    }
}

Client::TableCounts Client::list_rows(int table,
                                      const std::function<void(std::span<const std::byte>)>& each) {
  std::vector<std::byte> room(each ? comm::kMaxPayloadBytes : 0);
  TableCounts counts;
  for (int part = 0; part < kParts; ++part) {
    StoreRequest request = message(Kind::kListRows);
    request.table = table;
    request.slice = part;
    StoreAnswer answer;
    do {
      answer = ask_part(part, request, {}, room);
      request.base = answer.version;
      if (each && answer.ticket > 0) each(std::span<const std::byte>(room).first(std::size_t(answer.ticket)));
    } while (each && answer.outcome == StoreAnswer::Outcome::kDone);
    counts.is_open &= answer.outcome != StoreAnswer::Outcome::kWanted;
    counts.rows += answer.rows;
    counts.gone += answer.gone;
  }
  return counts;
}

void Client::load_rows(int table, std::span<const std::byte> records) {
  const std::size_t size = options_.spec.tables.at(std::size_t(table)).record_bytes();
  std::array<std::vector<std::byte>, kParts> by_part;
  for (std::size_t at = 0; at < records.size(); at += size) {
    std::uint64_t id = 0;
    std::memcpy(&id, records.data() + at, sizeof id);
    std::vector<std::byte>& part = by_part[std::size_t(compute::part_of_row(id))];
    part.insert(part.end(), records.begin() + std::ptrdiff_t(at),
                records.begin() + std::ptrdiff_t(at + size));
  }
  const std::size_t most = comm::kMaxPayloadBytes / size * size;
  for (int part = 0; part < kParts; ++part) {
    const std::span<const std::byte> all(by_part[std::size_t(part)]);
    StoreRequest request = message(Kind::kLoadRows);
    request.table = table;
    for (std::size_t at = 0; at < all.size(); at += most)
      ask_part(part, request, all.subspan(at, std::min(most, all.size() - at)), {});
  }
}

void Client::open_rows(int table) {
  for (int part = 0; part < kParts; ++part) {
    StoreRequest request = message(Kind::kLoadRows);
    request.table = table;
    request.parts = std::uint64_t{1} << part;
    ask_part(part, request, {}, {});
  }
}

}  // namespace distbelief::server
