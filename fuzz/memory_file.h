#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "distbelief/base/error.h"

namespace distbelief::fuzz {

// The input as a file with a path, kept in memory.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::uint8_t> content)
      : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    std::size_t done = 0;
    while (descriptor_ >= 0 && done < content.size()) {
      const ssize_t count = ::write(descriptor_, content.data() + done, content.size() - done);
      if (count <= 0) std::abort();
      done += static_cast<std::size_t>(count);
    }
    if (descriptor_ < 0) std::abort();
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

inline std::string_view text_of(std::span<const std::uint8_t> input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

inline std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// Two files in one input: the bytes before the first zero byte and the bytes after it.
struct Halves {
  std::span<const std::uint8_t> first;
  std::span<const std::uint8_t> second;
};
inline Halves halves(std::span<const std::uint8_t> input) {
  const auto at = std::size_t(std::ranges::find(input, 0) - input.begin());
  return {input.first(at), input.subspan(std::min(at + 1, input.size()))};
}

// A damaged file may cause only this error: bad input.
template <typename Parse>
void parse_or_refuse(Parse parse) {
  try {
    parse();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kBadInput) throw;
  }
}

}  // namespace distbelief::fuzz
