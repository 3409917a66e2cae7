#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/certificates.h"
#include "distbelief/comm/rpc/exchange_greeting.h"
#include "distbelief/comm/rpc/messages.h"
#include "memory_file.h"
#include "targets.h"

namespace distbelief::fuzz {
namespace {

// Converts a control message to a plain value and back, and expects the same message. Compares bytes, because
// NaN differs from itself.
template <class Message>
void through_plain_value(std::span<const std::uint8_t> input) {
  Message message;
  if (!message.ParseFromArray(input.data(), int(input.size()))) return;
  const Message sent = comm::to_wire(comm::from_wire(message));
  DISTBELIEF_INVARIANT(comm::to_wire(comm::from_wire(sent)).SerializeAsString() == sent.SerializeAsString());
}

}  // namespace

// The handshake of a connection, and the messages of workers, supervisor and commands.
void hello(std::span<const std::uint8_t> input) {
  parse_or_refuse([&] {
    const comm::Hello said = comm::decode_hello(text_of(input));
    DISTBELIEF_INVARIANT(comm::decode_hello(comm::encode(said)) == said);
  });
  parse_or_refuse([&] {
    const comm::Welcome said = comm::decode_welcome(text_of(input));
    DISTBELIEF_INVARIANT(comm::decode_welcome(comm::encode(said)) == said);
  });
  parse_or_refuse([&] { comm::unpack_certificates("here:1", std::string(text_of(input))); });
  through_plain_value<comm::wire::Report>(input);
  through_plain_value<comm::wire::Order>(input);
  through_plain_value<comm::wire::Command>(input);
  through_plain_value<comm::wire::Reply>(input);
}

}  // namespace distbelief::fuzz
