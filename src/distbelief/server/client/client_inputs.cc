#include <algorithm>
#include <utility>

#include "distbelief/server/client/client.h"
#include "distbelief/server/client/client_connection.h"

// The replica's side of a decomposed model: outputs of one sub-network on their way to the next.
namespace distbelief::server {

using comm::kMaxPayloadBytes;
using comm::StoreAnswer;

namespace {

std::int32_t pieces_of(std::size_t bytes) {
  return std::int32_t((bytes + kMaxPayloadBytes - 1) / kMaxPayloadBytes);
}

template <typename Byte>
std::span<Byte> piece_of(std::span<Byte> bytes, std::int32_t piece) {
  const std::size_t begin = std::size_t(piece) * kMaxPayloadBytes;
  return bytes.subspan(begin, std::min(kMaxPayloadBytes, bytes.size() - begin));
}

}  // namespace

// The first piece waits for the room of all, so that servers need not keep more of a writer that waits.
void Client::put_input(std::int64_t ticket, std::span<const std::byte> bytes) {
  std::vector<Part> parts;
  for (std::int32_t piece = 0; piece < pieces_of(bytes.size()); ++piece) {
    Part& part = parts.emplace_back(Part{.message = message(Kind::kPutInput)});
    part.message.ticket = ticket;
    part.message.piece = piece;
    part.message.pieces = pieces_of(bytes.size());
    part.payload = piece_of(bytes, piece);
  }
  Part first = std::move(parts.front());
  parts.erase(parts.begin());
  exchange_one(std::move(first), kForEver);
  // There is room, unless another ticket scheduler has taken over and learns of other tickets first.
  if (!parts.empty()) exchange(std::move(parts), kForEver);
}

std::optional<std::vector<std::byte>> Client::input(std::int64_t ticket) {
  std::vector<std::byte> bytes(std::min<std::size_t>(kMaxPayloadBytes, options_.spec.input_bytes));
  Part first{.message = message(Kind::kGetInput), .into = bytes};
  first.message.ticket = ticket;
  const StoreAnswer answer = exchange_one(std::move(first), kForEver);
  if (answer.outcome == StoreAnswer::Outcome::kRepeated) return std::nullopt;
  bytes.resize(answer.bytes);
  std::vector<Part> parts;
  for (std::int32_t piece = 1; piece < pieces_of(bytes.size()); ++piece) {
    Part& part = parts.emplace_back(Part{.message = message(Kind::kGetInput)});
    part.message.ticket = ticket;
    part.message.piece = piece;
    part.into = piece_of(std::span(bytes), piece);
  }
  for (const StoreAnswer& other : exchange(std::move(parts), kForEver)) {
    if (other.outcome == StoreAnswer::Outcome::kRepeated) return std::nullopt;
    if (other.version != answer.version) return input(ticket);  // another scheduler's
  }
  return bytes;
}

void Client::put_statistics(std::int64_t steps, std::span<const float> values) {
  Part part{.message = message(Kind::kPutStatistics), .payload = std::as_bytes(values)};
  part.message.version = steps;
  exchange_one(std::move(part), options_.deadline);
}

void Client::statistics(std::span<float> values) {
  exchange_one({.message = message(Kind::kGetStatistics), .into = std::as_writable_bytes(values)},
               options_.deadline);
}

void Client::await_done(std::int64_t ticket) {
  Part part{.message = message(Kind::kAwaitDone)};
  part.message.ticket = ticket;
  exchange_one(std::move(part), kForEver);
}

}  // namespace distbelief::server
