#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "distbelief/server/scheduler/ticket_set.h"

namespace distbelief::server {

// The inputs of a sub-network's tickets: the outputs of the sub-network before it, each kept from its first
// piece until its ticket is done. An input comes in pieces of kMaxPayloadBytes, the last one shorter. Pieces
// of two writers of one ticket are kept apart, because their numbers differ, and the first writer with all
// pieces counts. At most `count` tickets have a place, each with the pieces of two replicas. It only decides;
// the caller keeps the writers that wait for room. Not thread safe.
class InputWindow {
 public:
  struct Options {
    std::uint64_t input_bytes = 0;  // of one input, at most
    std::int64_t count = 0;
  };
  explicit InputWindow(const Options& options) : options_(options) {}

  struct Writer {
    std::int32_t replica = 0;
    std::int64_t incarnation = 0;
    auto operator<=>(const Writer&) const = default;  // NOLINT(modernize-use-nullptr): its own 0
  };
  struct Piece {
    std::int64_t ticket = 0;
    Writer writer{};
    std::int32_t piece = 0;
    std::int32_t pieces = 0;  // of the whole input
    std::span<const std::byte> bytes{};
  };
  // Throws Error(kBadInput) for an impossible piece.
  void require_sound(const Piece& piece) const;

  static constexpr std::size_t kDrafts = 2;  // per ticket

  // Whether the ticket has a place or can get one, and the writer a place in it.
  bool has_room(std::int64_t ticket, const Writer& writer) const;
  enum class Outcome { kKept, kComplete, kRepeated };
  // Takes a checked piece and makes a place for its ticket even if there is no room: of too many writers the
  // one silent longest goes. The pieces of a replica's earlier incarnation go too.
  Outcome put(const Piece& piece);
  std::vector<Writer> writers(std::int64_t ticket) const;  // with at least one piece
  void drop(std::int64_t ticket, const Writer& writer);

  // All of it is here.
  bool is_whole(std::int64_t ticket) const;
  std::int32_t pieces(std::int64_t ticket) const;
  std::uint64_t bytes(std::int64_t ticket) const;
  Writer writer(std::int64_t ticket) const;
  std::span<const std::byte> piece(std::int64_t ticket, std::int32_t piece) const;
  std::vector<std::int64_t> whole() const;  // tickets, in order
  std::vector<Piece> everything() const;    // for a server that gets a copy; valid until the next change

  void drop(const TicketSet& done);
  void clear() { places_.clear(); }
  std::size_t size() const { return places_.size(); }

 private:
  using Pieces = std::map<std::int32_t, std::vector<std::byte>>;
  struct Draft {
    std::int32_t pieces = 0;
    Pieces here{};
    std::uint64_t last = 0;  // time of the last write
    bool is_whole() const { return std::int32_t(here.size()) == pieces; }
  };
  // Several drafts only while none is whole.
  using Place = std::map<Writer, Draft>;

  const Place::value_type* find_whole(std::int64_t ticket) const;
  static void make_room(Place& place, const Writer& writer);

  Options options_;
  std::map<std::int64_t, Place> places_;  // by ticket
  std::uint64_t writes_ = 0;
};

}  // namespace distbelief::server
