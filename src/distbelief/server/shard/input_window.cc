#include "distbelief/server/shard/input_window.h"

#include <fmt/format.h>

#include <algorithm>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/exchange.h"

namespace distbelief::server {

using comm::kMaxPayloadBytes;

void InputWindow::require_sound(const Piece& piece) const {
  const auto most = std::int64_t((options_.input_bytes + kMaxPayloadBytes - 1) / kMaxPayloadBytes);
  const bool is_last = piece.piece + 1 == piece.pieces;
  const std::uint64_t end = std::uint64_t(std::max(piece.piece, 0)) * kMaxPayloadBytes + piece.bytes.size();
  const bool is_sound = piece.pieces >= 1 && piece.pieces <= most && piece.piece >= 0 &&
                        piece.piece < piece.pieces && !piece.bytes.empty() &&
                        piece.bytes.size() % sizeof(float) == 0 && end <= options_.input_bytes &&
                        (is_last || piece.bytes.size() == kMaxPayloadBytes);
  if (!is_sound)
    throw Error(ErrorCode::kBadInput,
                fmt::format("piece {} of {} of the input of ticket {} has {} bytes; wanted: floats, {} bytes "
                            "at most in all, in pieces of {}",
                            piece.piece, piece.pieces, piece.ticket, piece.bytes.size(), options_.input_bytes,
                            kMaxPayloadBytes));
}

bool InputWindow::has_room(std::int64_t ticket, const Writer& writer) const {
  const auto place = places_.find(ticket);
  if (place == places_.end()) return std::int64_t(places_.size()) < options_.count;
  const bool is_known = std::ranges::any_of(
      place->second, [&](const auto& draft) { return draft.first.replica == writer.replica; });
  return is_known || place->second.size() < kDrafts || is_whole(ticket);
}

std::vector<InputWindow::Writer> InputWindow::writers(std::int64_t ticket) const {
  std::vector<Writer> found;
  if (const auto place = places_.find(ticket); place != places_.end())
    for (const auto& [writer, draft] : place->second) found.push_back(writer);
  return found;
}

void InputWindow::drop(std::int64_t ticket, const Writer& writer) {
  if (const auto place = places_.find(ticket); place != places_.end()) place->second.erase(writer);
}

void InputWindow::make_room(Place& place, const Writer& writer) {
  std::erase_if(place, [&](const auto& other) {
    return other.first.replica == writer.replica && other.first.incarnation < writer.incarnation;
  });
  if (place.contains(writer) || place.size() < kDrafts) return;
  place.erase(std::ranges::min_element(place, {}, [](const auto& draft) { return draft.second.last; }));
}

const InputWindow::Place::value_type* InputWindow::find_whole(std::int64_t ticket) const {
  const auto place = places_.find(ticket);
  if (place == places_.end()) return nullptr;
  for (const auto& draft : place->second)
    if (draft.second.is_whole()) return &draft;
  return nullptr;
}

InputWindow::Outcome InputWindow::put(const Piece& piece) {
  if (is_whole(piece.ticket)) return Outcome::kRepeated;
  Place& place = places_[piece.ticket];
  for (const auto& [other, draft] : place)
    if (other.replica == piece.writer.replica && other.incarnation > piece.writer.incarnation)
      return Outcome::kRepeated;  // late: that incarnation is gone
  make_room(place, piece.writer);
  Draft& draft = place[piece.writer];
  draft.pieces = piece.pieces;
  draft.last = ++writes_;
  const bool is_new = draft.here.try_emplace(piece.piece, piece.bytes.begin(), piece.bytes.end()).second;
  if (!draft.is_whole()) return is_new ? Outcome::kKept : Outcome::kRepeated;
  std::erase_if(place, [&](const auto& other) { return other.first != piece.writer; });
  return Outcome::kComplete;
}

bool InputWindow::is_whole(std::int64_t ticket) const { return find_whole(ticket) != nullptr; }

std::int32_t InputWindow::pieces(std::int64_t ticket) const { return find_whole(ticket)->second.pieces; }

InputWindow::Writer InputWindow::writer(std::int64_t ticket) const { return find_whole(ticket)->first; }

std::uint64_t InputWindow::bytes(std::int64_t ticket) const {
  std::uint64_t bytes = 0;
  for (const auto& [number, piece] : find_whole(ticket)->second.here) bytes += piece.size();
  return bytes;
}

std::span<const std::byte> InputWindow::piece(std::int64_t ticket, std::int32_t piece) const {
  return find_whole(ticket)->second.here.at(piece);
}

std::vector<std::int64_t> InputWindow::whole() const {
  std::vector<std::int64_t> found;
  for (const auto& [ticket, place] : places_)
    if (is_whole(ticket)) found.push_back(ticket);
  return found;
}

std::vector<InputWindow::Piece> InputWindow::everything() const {
  std::vector<Piece> found;
  for (const auto& [ticket, place] : places_)
    for (const auto& [writer, draft] : place)
      for (const auto& [number, bytes] : draft.here)
        found.push_back(
            {.ticket = ticket, .writer = writer, .piece = number, .pieces = draft.pieces, .bytes = bytes});
  return found;
}

void InputWindow::drop(const TicketSet& done) {
  std::erase_if(places_, [&](const auto& place) { return done.contains(place.first); });
}

}  // namespace distbelief::server
