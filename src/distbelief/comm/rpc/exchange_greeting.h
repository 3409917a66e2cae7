#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "distbelief/comm/rpc/shared_memory.h"

// What the two ends of a connection say first: headers of a kHello and of a kWelcome. Pure functions on
// bytes. For the sources of this folder and for fuzzing.
namespace distbelief::comm {

struct Hello {
  std::string role{};  // both printable, at most 64 bytes
  std::string name{};
  std::uint64_t shared_bytes = 0;  // that the client would like to have
  bool operator==(const Hello&) const = default;
};

struct Welcome {
  std::uint64_t connection = 0;
  int in_flight = 1;             // requests that may wait for their answers at the same time
  SharedMemory::Place memory{};  // of no bytes: there is none
  bool operator==(const Welcome&) const = default;
};

std::string encode(const Hello& hello);
std::string encode(const Welcome& welcome);
// Throw Error(kBadInput) for what cannot be read, or is of another version of the protocol.
Hello decode_hello(std::string_view header);
Welcome decode_welcome(std::string_view header);

}  // namespace distbelief::comm
