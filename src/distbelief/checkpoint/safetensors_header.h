#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "distbelief/checkpoint/safetensors.h"

// Encodes and decodes the safetensors header without touching files.
namespace distbelief::checkpoint {

// Enough for some 300,000 tensors. Other readers accept 100 MB, but parsed JSON takes up to twenty times its
// length.
inline constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{32} << 20;
inline constexpr std::size_t kLengthBytes = 8;

// Size of a tensor in bytes; nothing for a negative or overflowing shape.
std::optional<std::uint64_t> checked_byte_count(ElementType type, const Shape& shape);

struct EncodedHeader {
  std::string bytes;                     // length and padded JSON: everything before the data
  std::vector<const TensorView*> order;  // order of the data
  std::uint64_t data_bytes = 0;
};
// Throws Error(kBadInput).
EncodedHeader encode_header(std::span<const TensorView> tensors, const Metadata& metadata);

struct DecodedHeader {
  std::vector<TensorView> tensors;  // by name; views into the given bytes
  Metadata metadata;
};
// Checks a whole file; `origin` names it in errors. Throws Error(kBadInput).
DecodedHeader decode_header(std::string_view origin, std::span<const std::byte> file,
                            HalfFloats halves = HalfFloats::kRefused);

}  // namespace distbelief::checkpoint
