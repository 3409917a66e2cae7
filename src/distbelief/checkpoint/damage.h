#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "distbelief/base/scratch_folder.h"

// For tests.
namespace distbelief::checkpoint {

inline std::string flipped(std::string bytes, std::uint64_t bit) {
  bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  return bytes;
}

// Truncating a file in place makes some file systems write it to the disk at once; a thousand times is slow.
inline void rewrite(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::remove(path);
  write_text(path, bytes);
}

}  // namespace distbelief::checkpoint
