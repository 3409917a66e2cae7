#include "distbelief/comm/rpc/exchange_frame.h"

#include <fmt/format.h>

#include <cstring>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/exchange.h"

namespace distbelief::comm {
namespace {

constexpr std::uint8_t kPayloadShared = 1;
constexpr std::uint8_t kRoomShared = 2;
constexpr std::uint8_t kKnownFlags = kPayloadShared | kRoomShared;

template <class T>
void put_little(std::byte* at, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i) at[i] = std::byte(value >> (8 * i));
}

template <class T>
T get_little(const std::byte* at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) value |= T(std::to_integer<T>(at[i])) << (8 * i);
  return value;
}

bool from_client(FrameKind kind) { return kind == FrameKind::kHello || kind == FrameKind::kRequest; }

bool known(FrameKind kind) { return kind >= FrameKind::kHello && kind <= FrameKind::kRefusal; }

bool numbered(FrameKind kind) { return kind != FrameKind::kHello && kind != FrameKind::kWelcome; }

std::string check_place(const char* what, std::uint64_t at, std::uint64_t bytes, std::size_t shared_bytes) {
  if (at % kSharedAlignment != 0)
    return fmt::format("the {}'s place {} is no multiple of {}", what, at, kSharedAlignment);
  if (bytes <= shared_bytes && at <= shared_bytes - bytes) return "";
  return fmt::format("the {} of {} bytes at {} is outside of the {} shared bytes", what, bytes, at,
                     shared_bytes);
}

std::string check_kind(const Frame& frame, FrameSender sender) {
  if (!known(frame.kind)) return fmt::format("kind {} is unknown", int(frame.kind));
  if (from_client(frame.kind) != (sender == FrameSender::kClient))
    return fmt::format("kind {} is not for this side to send", int(frame.kind));
  if (frame.unused != 0) return "unknown flags";
  if (numbered(frame.kind) != (frame.number != 0))
    return fmt::format("number {} for kind {}", frame.number, int(frame.kind));
  const bool refusal = frame.kind == FrameKind::kRefusal;
  if (frame.code > (refusal ? int(ErrorCode::kInternal) : 0)) return fmt::format("code {}", frame.code);
  return "";
}

std::string check_sizes(const Frame& frame, std::size_t message_bytes) {
  if (frame.header_bytes > kMaxHeaderBytes)
    return fmt::format("a header of {} bytes, at most {} are taken", frame.header_bytes, kMaxHeaderBytes);
  if (frame.payload_bytes > kMaxPayloadBytes)
    return fmt::format("a payload of {} bytes, at most {} are taken", frame.payload_bytes, kMaxPayloadBytes);
  if (frame.room_bytes > kMaxPayloadBytes)
    return fmt::format("room for {} bytes, at most {} are sent", frame.room_bytes, kMaxPayloadBytes);
  const std::size_t told =
      kFrameBytes + frame.header_bytes + (frame.payload_shared ? 0 : frame.payload_bytes);
  if (told != message_bytes)
    return fmt::format("the head tells of {} bytes, the message has {}", told, message_bytes);
  return "";
}

std::string check_places(const Frame& frame, const FrameLimits& limits) {
  const bool request = frame.kind == FrameKind::kRequest;
  if (!request && (frame.room_shared || frame.room_bytes != 0))
    return "room for an answer, but it is no request";
  if (!request && frame.payload_at != 0) return "a place, but it is no request";
  if (frame.payload_shared && frame.kind != FrameKind::kAnswer && !request)
    return "a shared payload, but it has none";
  if (!frame.payload_shared && frame.payload_at != 0) return "a place for a payload that is not shared";
  if (!frame.room_shared && frame.room_at != 0) return "a place for room that is not shared";
  if (frame.payload_shared && request)
    if (std::string why = check_place("payload", frame.payload_at, frame.payload_bytes, limits.shared_bytes);
        !why.empty())
      return why;
  if (frame.room_shared) return check_place("room", frame.room_at, frame.room_bytes, limits.shared_bytes);
  return "";
}

}  // namespace

FrameHead encode_frame(const Frame& frame) {
  FrameHead head{};
  head[0] = std::byte(frame.kind);
  head[1] = std::byte((frame.payload_shared ? kPayloadShared : 0) | (frame.room_shared ? kRoomShared : 0));
  head[2] = std::byte(frame.code);
  head[3] = std::byte(frame.unused);
  put_little(&head[4], frame.header_bytes);
  put_little(&head[8], frame.payload_bytes);
  put_little(&head[12], frame.room_bytes);
  put_little(&head[16], frame.number);
  put_little(&head[24], frame.payload_at);
  put_little(&head[32], frame.room_at);
  return head;
}

Frame decode_frame(std::span<const std::byte, kFrameBytes> head) {
  const auto flags = std::to_integer<std::uint8_t>(head[1]);
  return {.kind = FrameKind(std::to_integer<std::uint8_t>(head[0])),
          .payload_shared = (flags & kPayloadShared) != 0,
          .room_shared = (flags & kRoomShared) != 0,
          .code = std::to_integer<std::uint8_t>(head[2]),
          .unused = std::uint8_t(std::to_integer<std::uint8_t>(head[3]) | (flags & ~kKnownFlags)),
          .header_bytes = get_little<std::uint32_t>(&head[4]),
          .payload_bytes = get_little<std::uint32_t>(&head[8]),
          .room_bytes = get_little<std::uint32_t>(&head[12]),
          .number = get_little<std::uint64_t>(&head[16]),
          .payload_at = get_little<std::uint64_t>(&head[24]),
          .room_at = get_little<std::uint64_t>(&head[32])};
}

std::string check_frame(const Frame& frame, const FrameLimits& limits) {
  if (std::string why = check_kind(frame, limits.sender); !why.empty()) return why;
  if (std::string why = check_sizes(frame, limits.message_bytes); !why.empty()) return why;
  return check_places(frame, limits);
}

}  // namespace distbelief::comm
