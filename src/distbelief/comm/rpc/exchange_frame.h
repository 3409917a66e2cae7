#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

// The head of each message of the parameter servers' transport: pure functions on bytes. Private to this
// folder and to fuzzing. docs/reference/wire.md describes the format.
namespace distbelief::comm {

enum class FrameKind : std::uint8_t { kHello = 1, kWelcome = 2, kRequest = 3, kAnswer = 4, kRefusal = 5 };
enum class FrameSender { kClient, kServer };

struct Frame {
  FrameKind kind = FrameKind::kRequest;
  bool payload_shared = false;  // the payload lies in the shared memory, at payload_at
  bool room_shared = false;     // the answer's payload goes there too, at room_at
  std::uint8_t code = 0;        // of a refusal: an ErrorCode
  std::uint8_t unused = 0;
  std::uint32_t header_bytes = 0;
  std::uint32_t payload_bytes = 0;
  std::uint32_t room_bytes = 0;  // of a request: the largest payload of its answer
  std::uint64_t number = 0;  // requests of a connection count upwards; an answer repeats its request's number
  std::uint64_t payload_at = 0;
  std::uint64_t room_at = 0;

  bool operator==(const Frame&) const = default;
};

inline constexpr std::size_t kFrameBytes = 40;
// Shared payloads begin on multiples of it, so that floats and 64-bit ids can be used in place.
inline constexpr std::size_t kSharedAlignment = 8;

using FrameHead = std::array<std::byte, kFrameBytes>;
FrameHead encode_frame(const Frame& frame);
// Never fails; check_frame judges the meaning of the bytes. Unknown flags stay in `unused`.
Frame decode_frame(std::span<const std::byte, kFrameBytes> head);

struct FrameLimits {
  FrameSender sender = FrameSender::kClient;
  std::size_t message_bytes = 0;  // of the whole message: head, header, payload
  std::size_t shared_bytes = 0;   // of the connection's shared memory
};

// Returns why the message is rejected, or an empty string. Everything that an accepted frame names lies
// inside the message or the shared memory.
std::string check_frame(const Frame& frame, const FrameLimits& limits);

}  // namespace distbelief::comm
