#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/exchange_client.h"
#include "distbelief/server/client.h"

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

struct Client::Server {
  std::unique_ptr<comm::ExchangeClient> exchange;
  std::uint64_t space = 0;
  std::shared_ptr<std::set<std::int64_t>> rooms_in_use =
      std::make_shared<std::set<std::int64_t>>();  // slices
  std::vector<std::byte> row_rooms{};              // when no memory is shared
  std::size_t next_room = 0;
};

}  // namespace distbelief::server
