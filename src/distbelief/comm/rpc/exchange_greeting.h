#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "distbelief/comm/rpc/shared_memory.h"

// The first message of each end of a connection: the headers of a kHello and of a kWelcome. Pure functions on
// bytes. Private to this folder and to fuzzing.
namespace distbelief::comm {

struct Hello {
  std::string role{};  // both printable, at most 64 bytes
  std::string name{};
  std::uint64_t shared_bytes = 0;  // the size that the client asks for
  bool operator==(const Hello&) const = default;
};

struct Welcome {
  std::uint64_t connection = 0;
  int in_flight = 1;             // requests that may be unanswered at the same time
  SharedMemory::Place memory{};  // of 0 bytes: none
  bool operator==(const Welcome&) const = default;
};

std::string encode(const Hello& hello);
std::string encode(const Welcome& welcome);
// Throw Error(kBadInput) for bytes that cannot be read, or for another version of the protocol.
Hello decode_hello(std::string_view header);
Welcome decode_welcome(std::string_view header);

}  // namespace distbelief::comm
