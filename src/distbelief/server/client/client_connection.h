#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/exchange_client.h"
#include "distbelief/server/client/client.h"

// What the sources of a replica's end share.
namespace distbelief::server {

inline constexpr std::chrono::milliseconds kLookAgain{5};
// A wait that lasts as long as it takes, while any server says that it lives and the caller goes on.
inline constexpr std::chrono::hours kForEver{24 * 365};

// Messages of rows that are under way to a server, each with room for what goes out and what comes back.
inline constexpr std::size_t kRowRooms = 4;
inline constexpr std::size_t kRowRoomBytes = kRowRooms * 2 * comm::kMaxPayloadBytes;

// Another server may do it.
inline bool is_worth_another_try(const Error& error) {
  return error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kAborted;
}

// Messages that go out together, and what came back.
struct Client::Flight {
  std::vector<Part> parts{};
  std::vector<comm::StoreAnswer> answers{};
  std::vector<Sent> sent{};           // under way
  std::vector<std::size_t> failed{};  // parts, to be sent again
  std::optional<Error> why{};
};

// Connections to a server on another host: what goes over one is encrypted, or decrypted, by one thread at a
// time, and not sent meanwhile.
inline constexpr std::size_t kFarConnections = 3;

struct Client::Server {
  std::unique_ptr<comm::ExchangeClient> exchange;
  std::vector<std::unique_ptr<comm::ExchangeClient>> more{};  // for slices, in turn with the first
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
