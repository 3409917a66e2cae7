#include "distbelief/comm/rpc/exchange_frame.h"

#include <gtest/gtest.h>

#include "distbelief/comm/rpc/exchange.h"

namespace distbelief::comm {
namespace {

constexpr std::size_t kShared = 1 << 16;

Frame request() {
  return {
      .kind = FrameKind::kRequest, .header_bytes = 10, .payload_bytes = 100, .room_bytes = 8, .number = 7};
}

std::string judged(const Frame& frame, std::size_t message_bytes, FrameSender sender = FrameSender::kClient) {
  return check_frame(frame, {.sender = sender, .message_bytes = message_bytes, .shared_bytes = kShared});
}

TEST(ExchangeFrame, ComesBackAsItWent) {
  const Frame frame{.kind = FrameKind::kAnswer,
                    .payload_shared = true,
                    .room_shared = true,
                    .code = 3,
                    .header_bytes = 0x01020304,
                    .payload_bytes = 0xfffefdfc,
                    .room_bytes = 5,
                    .number = 0x0102030405060708,
                    .payload_at = ~0ull,
                    .room_at = 9};
  EXPECT_EQ(decode_frame(encode_frame(frame)), frame);
}

TEST(ExchangeFrame, IsLittleEndianOnTheWire) {
  const FrameHead head = encode_frame({.header_bytes = 0x01020304, .number = 0x11});
  EXPECT_EQ(head[0], std::byte{3});
  EXPECT_EQ(head[4], std::byte{4});
  EXPECT_EQ(head[7], std::byte{1});
  EXPECT_EQ(head[16], std::byte{0x11});
}

TEST(ExchangeFrame, AHonestRequestIsTaken) { EXPECT_EQ(judged(request(), 150), ""); }

TEST(ExchangeFrame, LengthsThatLieAreRefused) {
  EXPECT_NE(judged(request(), 149), "");
  EXPECT_NE(judged(request(), 151), "");
  Frame frame = request();
  frame.header_bytes = kMaxHeaderBytes + 1;
  EXPECT_NE(judged(frame, kFrameBytes + frame.header_bytes + 100), "");
  frame = request();
  frame.payload_bytes = kMaxPayloadBytes + 1;
  EXPECT_NE(judged(frame, kFrameBytes + 10 + frame.payload_bytes), "");
  frame = request();
  frame.room_bytes = kMaxPayloadBytes + 1;
  EXPECT_NE(judged(frame, 150), "");
}

TEST(ExchangeFrame, ReferencesStayInsideTheSharedMemory) {
  Frame frame = request();
  frame.payload_shared = true;
  frame.payload_at = kShared - 104;
  EXPECT_EQ(judged(frame, 50), "");
  frame.payload_at += 8;
  EXPECT_NE(judged(frame, 50), "") << "one step too far";
  frame.payload_at = ~0ull - 7;
  EXPECT_NE(judged(frame, 50), "") << "the sum overflows";
  frame.payload_at = 4;
  EXPECT_NE(judged(frame, 50), "") << "not aligned";
  frame.payload_at = 0;
  EXPECT_NE(check_frame(frame, {.message_bytes = 50, .shared_bytes = 0}), "") << "nothing is shared";
  frame = request();
  frame.room_shared = true;
  frame.room_at = kShared - 8;
  EXPECT_EQ(judged(frame, 150), "");
  frame.room_at = kShared;
  EXPECT_NE(judged(frame, 150), "");
}

TEST(ExchangeFrame, KindsFlagsAndNumbersAreJudged) {
  Frame frame = request();
  EXPECT_NE(judged(frame, 150, FrameSender::kServer), "") << "servers do not ask";
  frame.number = 0;
  EXPECT_NE(judged(frame, 150), "");
  frame = request();
  frame.unused = 4;
  EXPECT_NE(judged(frame, 150), "");
  frame = request();
  frame.code = 1;
  EXPECT_NE(judged(frame, 150), "");
  frame = request();
  for (const int kind : {0, 2, 4, 5, 6, 255}) {
    frame.kind = FrameKind(kind);
    EXPECT_NE(judged(frame, 150), "") << kind;
  }
}

TEST(ExchangeFrame, AnUnknownFlagDoesNotGetLost) {
  FrameHead head = encode_frame(request());
  head[1] = std::byte{0x80};
  EXPECT_NE(judged(decode_frame(head), 150), "");
}

}  // namespace
}  // namespace distbelief::comm
