#include "distbelief/comm/rpc/exchange_greeting.h"

#include <fmt/format.h>
#include <proto/exchange.pb.h>

#include <algorithm>
#include <cctype>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/exchange.h"

namespace distbelief::comm {
namespace {

constexpr std::size_t kMaxNameBytes = 64;
constexpr std::uint32_t kMostInFlight = 1 << 20;

// For logs: a name that a peer sends cannot break out of its line.
std::string printable(const std::string& name) {
  std::string result = name.substr(0, kMaxNameBytes);
  std::ranges::replace_if(
      result, [](unsigned char letter) { return std::isprint(letter) == 0; }, '?');
  return result;
}

template <class Message>
Message read_greeting(std::string_view header) {
  Message message;
  if (!message.ParseFromArray(header.data(), int(header.size())))
    throw Error(ErrorCode::kBadInput, "a greeting that cannot be read");
  if (message.version() != kExchangeVersion)
    throw Error(ErrorCode::kBadInput, fmt::format("version {} of the protocol, this end speaks {}",
                                                  message.version(), kExchangeVersion));
  return message;
}

}  // namespace

std::string encode(const Hello& hello) {
  exchange::Hello message;
  message.set_version(kExchangeVersion);
  message.set_role(hello.role);
  message.set_name(hello.name);
  message.set_shared_bytes(hello.shared_bytes);
  return message.SerializeAsString();
}

std::string encode(const Welcome& welcome) {
  exchange::Welcome message;
  message.set_version(kExchangeVersion);
  message.set_connection(welcome.connection);
  message.set_in_flight(std::uint32_t(welcome.in_flight));
  if (welcome.memory.bytes > 0) {
    message.set_shared_bytes(welcome.memory.bytes);
    message.set_pid(welcome.memory.pid);
    message.set_file(welcome.memory.descriptor);
    message.set_device(welcome.memory.device);
    message.set_inode(welcome.memory.inode);
  }
  return message.SerializeAsString();
}

Hello decode_hello(std::string_view header) {
  const auto message = read_greeting<exchange::Hello>(header);
  return {.role = printable(message.role()),
          .name = printable(message.name()),
          .shared_bytes = message.shared_bytes()};
}

Welcome decode_welcome(std::string_view header) {
  const auto message = read_greeting<exchange::Welcome>(header);
  if (message.in_flight() == 0) throw Error(ErrorCode::kBadInput, "a welcome without room for a request");
  Welcome welcome{.connection = message.connection(),
                  .in_flight = int(std::min(message.in_flight(), kMostInFlight))};
  if (message.shared_bytes() > 0)
    welcome.memory = {.pid = message.pid(),
                      .descriptor = message.file(),
                      .device = message.device(),
                      .inode = message.inode(),
                      .bytes = message.shared_bytes()};
  return welcome;
}

}  // namespace distbelief::comm
