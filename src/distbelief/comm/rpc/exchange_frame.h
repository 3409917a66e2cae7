#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

// The head of each message of the parameter servers' transport: pure functions on bytes. For the sources of
// this folder and for fuzzing. The form is in docs/reference/wire.md.
namespace distbelief::comm {

enum class FrameKind : std::uint8_t { kHello = 1, kWelcome = 2, kRequest = 3, kAnswer = 4, kRefusal = 5 };
enum class FrameSender { kClient, kServer };

struct Frame {
  FrameKind kind = FrameKind::kRequest;
  bool payload_shared = false;  // the payload lies in the shared memory, at payload_at
  bool room_shared = false;     // the answer's payload is to be put there, at room_at
  std::uint8_t code = 0;        // of a refusal: an ErrorCode
  std::uint8_t unused = 0;
  std::uint32_t header_bytes = 0;
  std::uint32_t payload_bytes = 0;
  std::uint32_t room_bytes = 0;  // of a request: how large its answer's payload may be
  std::uint64_t number = 0;      // a connection's requests are numbered upwards; an answer has its request's
  std::uint64_t payload_at = 0;
  std::uint64_t room_at = 0;

  bool operator==(const Frame&) const = default;
};

inline constexpr std::size_t kFrameBytes = 40;
// Shared places begin on multiples of it, so that floats and 64-bit ids can be used where they lie.
inline constexpr std::size_t kSharedAlignment = 8;

using FrameHead = std::array<std::byte, kFrameBytes>;
FrameHead encode_frame(const Frame& frame);
// Never fails: what the bytes mean is for check_frame to judge. Unknown flags stay in `unused`.
Frame decode_frame(std::span<const std::byte, kFrameBytes> head);

struct FrameLimits {
  FrameSender sender = FrameSender::kClient;
  std::size_t message_bytes = 0;  // of the whole message: head, header, payload
  std::size_t shared_bytes = 0;   // of the connection's shared memory
};

// Why the message cannot be taken; empty when it can. A frame that passes stays inside the message and inside
// the shared memory with all that it names.
std::string check_frame(const Frame& frame, const FrameLimits& limits);

}  // namespace distbelief::comm
