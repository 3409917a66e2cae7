#include "distbelief/base/hex.h"

#include <fmt/format.h>

#include <charconv>

#include "distbelief/base/error.h"

namespace distbelief {

std::string to_hex(const std::string& bytes) {
  std::string hex;
  for (const unsigned char byte : bytes) hex += fmt::format("{:02x}", byte);
  return hex;
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t at = 0; at < hex.size(); at += 2) {
    unsigned byte = 0;
    const char* end = hex.data() + std::min(at + 2, hex.size());
    const auto [stop, error] = std::from_chars(hex.data() + at, end, byte, 16);
    if (error != std::errc{} || stop != end || end != hex.data() + at + 2)
      throw Error(ErrorCode::kBadInput, fmt::format("'{}' is not hexadecimal", hex.substr(at, 2)));
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace distbelief
