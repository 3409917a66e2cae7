#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

// What both ends of the parameter servers' transport share: docs/reference/wire.md. Plain values,
// without gRPC.
namespace distbelief::comm {

inline constexpr std::size_t kMaxHeaderBytes = 256 << 10;
inline constexpr std::size_t kMaxPayloadBytes = 1 << 20;  // 262144 floats
inline constexpr std::uint32_t kExchangeVersion = 1;

// Who is at the other end of a connection, as the server sees it.
struct Peer {
  std::uint64_t connection = 0;  // from 1 on, never used twice by one server
  std::string role{};            // over TLS proved, over a Unix socket as the client says
  std::string name{};            // for messages: printable, at most 64 bytes
};

// What a request was answered with. The payload is in the memory that was given for it.
struct Answer {
  std::string header{};
  std::size_t bytes = 0;
};

}  // namespace distbelief::comm
