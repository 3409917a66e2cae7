#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/exchange_client.h"
#include "distbelief/server/client/client.h"

// Private declarations of the client's sources.
namespace distbelief::server {

inline constexpr std::chrono::milliseconds kLookAgain{5};
// For waits without a deadline: they last while any server answers and the caller goes on.
inline constexpr std::chrono::hours kForEver{24 * 365};

// Messages of rows in flight to a server, each with room for the request and the answer.
inline constexpr std::size_t kRowRooms = 4;
inline constexpr std::size_t kRowRoomBytes = kRowRooms * 2 * comm::kMaxPayloadBytes;

// Another server may be able to do it.
inline bool is_worth_another_try(const Error& error) {
  return error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kAborted;
}

// Messages that are sent together, and their answers.
struct Client::Flight {
  std::vector<Part> parts{};
  std::vector<comm::StoreAnswer> answers{};
  std::vector<Sent> sent{};           // in flight
  std::vector<std::size_t> failed{};  // parts to send again
  std::optional<Error> why{};
};

// Connections to a server on another host: one thread at a time encrypts or decrypts the data of a
// connection, and sends nothing meanwhile.
inline constexpr std::size_t kFarConnections = 3;

struct Client::Server {
  std::unique_ptr<comm::ExchangeClient> exchange;
  std::vector<std::unique_ptr<comm::ExchangeClient>> more{};  // for slices, in turn with `exchange`
  std::size_t turn = 0;
  std::uint64_t space = 0;
  std::shared_ptr<std::set<std::int64_t>> rooms_in_use =
      std::make_shared<std::set<std::int64_t>>();  // slices
  std::vector<std::byte> row_rooms{};              // when no memory is shared
  std::size_t next_room = 0;

  comm::ExchangeClient& for_slice() {
    turn = (turn + 1) % (more.size() + 1);
    return turn == 0 ? *exchange : *more[turn - 1];
  }
  bool is_connected() const {
    return exchange->connected() &&
           std::ranges::all_of(more, [](const auto& one) { return one->connected(); });
  }
};

}  // namespace distbelief::server
