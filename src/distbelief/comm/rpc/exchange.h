#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

// Definitions shared by both ends of the parameter servers' transport: docs/reference/wire.md. Plain values,
// without gRPC.
namespace distbelief::comm {

inline constexpr std::size_t kMaxHeaderBytes = 256 << 10;
inline constexpr std::size_t kMaxPayloadBytes = 1 << 20;  // 262144 floats
inline constexpr std::uint32_t kExchangeVersion = 1;

// The other end of a connection, as the server sees it.
struct Peer {
  std::uint64_t connection = 0;  // from 1 on; a server never reuses one
  std::string role{};            // proven over TLS; over a Unix socket as the client states
  std::string name{};            // for messages only: printable, at most 64 bytes
};

// The answer to a request. Its payload is in the memory that the caller gave.
struct Answer {
  std::string header{};
  std::size_t bytes = 0;
};

}  // namespace distbelief::comm
