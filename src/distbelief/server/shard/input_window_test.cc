#include "distbelief/server/shard/input_window.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/exchange.h"

namespace distbelief::server {
namespace {

using comm::kMaxPayloadBytes;
using PutOutcome = InputWindow::Outcome;

constexpr InputWindow::Writer kFirst{.replica = 0, .incarnation = 1}, kSecond{.replica = 2, .incarnation = 1};

// Two pieces, the last one of 8 bytes.
class InputWindowTest : public ::testing::Test {
 protected:
  InputWindow::Piece piece(std::int64_t ticket, int number, InputWindow::Writer writer = kFirst) const {
    const std::size_t bytes = number == 0 ? kMaxPayloadBytes : 8;
    return {.ticket = ticket,
            .writer = writer,
            .piece = number,
            .pieces = 2,
            .bytes = std::span(writer == kFirst ? ones_ : twos_).first(bytes)};
  }
  PutOutcome put_both(std::int64_t ticket) {
    window_.put(piece(ticket, 0));
    return window_.put(piece(ticket, 1));
  }

  const std::vector<std::byte> ones_ = std::vector<std::byte>(kMaxPayloadBytes, std::byte{1});
  const std::vector<std::byte> twos_ = std::vector<std::byte>(kMaxPayloadBytes, std::byte{2});
  InputWindow window_{{.input_bytes = kMaxPayloadBytes + 8, .count = 2}};
};

TEST_F(InputWindowTest, AnInputIsWholeWhenAllItsPiecesAreThereInAnyOrder) {
  EXPECT_EQ(window_.put(piece(7, 1)), PutOutcome::kKept);
  EXPECT_FALSE(window_.is_whole(7));
  EXPECT_EQ(window_.put(piece(7, 0)), PutOutcome::kComplete);
  EXPECT_EQ(window_.whole(), std::vector<std::int64_t>{7});
  EXPECT_EQ(window_.bytes(7), kMaxPayloadBytes + 8);
  EXPECT_EQ(window_.pieces(7), 2);
  EXPECT_EQ(window_.piece(7, 1).size(), 8U);
}

TEST_F(InputWindowTest, WhatIsPutAgainChangesNothing) {
  EXPECT_EQ(window_.put(piece(3, 0)), PutOutcome::kKept);
  EXPECT_EQ(window_.put(piece(3, 0)), PutOutcome::kRepeated);
  EXPECT_EQ(window_.put(piece(3, 1)), PutOutcome::kComplete);
  EXPECT_EQ(window_.put(piece(3, 1)), PutOutcome::kRepeated);
  EXPECT_EQ(window_.put(piece(3, 0, kSecond)), PutOutcome::kRepeated);
  EXPECT_EQ(window_.size(), 1U);
}

TEST_F(InputWindowTest, OnlySoManyTicketsHaveAPlaceUntilTheyAreDone) {
  put_both(0);
  window_.put(piece(1, 0));
  EXPECT_FALSE(window_.has_room(2, kFirst));
  EXPECT_TRUE(window_.has_room(1, kFirst)) << "one that has its place brings the rest";
  TicketSet done;
  done.insert(0);
  window_.drop(done);
  EXPECT_TRUE(window_.has_room(2, kFirst));
  EXPECT_FALSE(window_.is_whole(0));
}

TEST_F(InputWindowTest, PiecesOfTwoWritersAreNotMixedAndWhoeverIsWholeFirstCounts) {
  EXPECT_EQ(window_.put(piece(5, 0)), PutOutcome::kKept);  // its writer dies
  EXPECT_EQ(window_.put(piece(5, 1, kSecond)), PutOutcome::kKept);
  EXPECT_FALSE(window_.is_whole(5));
  EXPECT_EQ(window_.put(piece(5, 0, kSecond)), PutOutcome::kComplete);
  for (const int number : {0, 1}) EXPECT_EQ(window_.piece(5, number)[0], std::byte{2});
  EXPECT_EQ(window_.writer(5), kSecond);
  EXPECT_EQ(window_.everything().size(), 2U) << "what the other had brought is gone";
}

TEST_F(InputWindowTest, AReplicaThatWasStartedAgainTakesThePlaceOfTheOneBefore) {
  for (std::int64_t incarnation = 1; incarnation < 100; ++incarnation)
    window_.put(piece(5, 0, {.replica = 7, .incarnation = incarnation}));
  EXPECT_EQ(window_.everything().size(), 1U);
  EXPECT_EQ(window_.put(piece(5, 1, {.replica = 7, .incarnation = 98})), PutOutcome::kRepeated) << "late";
  EXPECT_EQ(window_.everything().size(), 1U);
  EXPECT_EQ(window_.put(piece(5, 1, {.replica = 7, .incarnation = 99})), PutOutcome::kComplete);
}

TEST_F(InputWindowTest, OfATicketTwoWritersHaveRoomUntilOneGoes) {
  constexpr InputWindow::Writer kThird{.replica = 3, .incarnation = 1};
  window_.put(piece(5, 0));
  EXPECT_TRUE(window_.has_room(5, kSecond));
  window_.put(piece(5, 0, kSecond));
  EXPECT_FALSE(window_.has_room(5, kThird));
  EXPECT_TRUE(window_.has_room(5, kFirst));
  EXPECT_TRUE(window_.has_room(5, {.replica = kFirst.replica, .incarnation = 2}));
  EXPECT_EQ(window_.writers(5), (std::vector{kFirst, kSecond}));
  window_.drop(5, kFirst);
  EXPECT_TRUE(window_.has_room(5, kThird));
  window_.put(piece(5, 0, kThird));
  window_.put(piece(5, 0));
  EXPECT_EQ(window_.writers(5), (std::vector{kFirst, kThird})) << "whoever was silent longest goes";
  EXPECT_EQ(window_.put(piece(5, 1)), PutOutcome::kComplete);
  EXPECT_TRUE(window_.has_room(5, kSecond)) << "it hears that the input is there";
}

TEST_F(InputWindowTest, WhoTakesOverGetsWholeInputsAndPieces) {
  put_both(4);
  window_.put(piece(6, 1));
  InputWindow other({.input_bytes = kMaxPayloadBytes + 8, .count = 2});
  for (const InputWindow::Piece& piece : window_.everything()) other.put(piece);
  EXPECT_EQ(other.whole(), std::vector<std::int64_t>{4});
  EXPECT_EQ(other.put(piece(6, 0)), PutOutcome::kComplete);
}

TEST_F(InputWindowTest, RefusesWhatNoInputCanHave) {
  const auto is_refused = [&](const InputWindow::Piece& piece) {
    EXPECT_THROW(window_.require_sound(piece), Error) << piece.piece << " of " << piece.pieces;
  };
  window_.require_sound(piece(0, 0));
  window_.require_sound(piece(0, 1));
  InputWindow::Piece wrong = piece(0, 1);
  wrong.pieces = 3;  // more than allowed
  is_refused(wrong);
  wrong = piece(0, 1);
  wrong.piece = -1;
  is_refused(wrong);
  wrong = piece(0, 1);
  wrong.bytes = std::span(ones_).first(12);  // larger than an input
  is_refused(wrong);
  wrong.bytes = std::span(ones_).first(6);  // no floats
  is_refused(wrong);
  wrong.bytes = {};
  is_refused(wrong);
  wrong = piece(0, 0);
  wrong.bytes = std::span(ones_).first(8);  // a piece that others follow must be full
  is_refused(wrong);
}

}  // namespace
}  // namespace distbelief::server
