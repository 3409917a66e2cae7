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
inline constexpr std::chrono::hours kForEver{24 * 365};

// Messages of rows that are under way to a server, each with room for what goes out and what comes back.
inline constexpr std::size_t kRowRooms = 4;
inline constexpr std::size_t kRowRoomBytes = kRowRooms * 2 * comm::kMaxPayloadBytes;

// Another server may do it.
inline bool is_worth_another_try(const Error& error) {
  return error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kAborted;
}

struct Client::Server {
  std::unique_ptr<comm::ExchangeClient> exchange;
  std::uint64_t space = 0;
  std::vector<std::byte> row_rooms{};  // when no memory is shared
  std::size_t next_room = 0;
};

}  // namespace distbelief::server
