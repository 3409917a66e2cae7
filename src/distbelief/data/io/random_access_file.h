#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace distbelief::data {

// A regular file with reads at any offset. Immutable after construction: any number of threads may read at
// once.
class RandomAccessFile {
 public:
  // Throws Error(kUnavailable) when the file cannot be opened.
  explicit RandomAccessFile(std::filesystem::path path);
  ~RandomAccessFile();
  RandomAccessFile(RandomAccessFile&& other) noexcept;
  RandomAccessFile& operator=(RandomAccessFile&&) = delete;

  std::uint64_t size() const { return size_; }  // when the file was opened
  const std::filesystem::path& path() const { return path_; }
  std::string at(std::uint64_t offset) const;  // a place as messages name it: "'file', byte 16"

  // Reads exactly `count` bytes. Throws Error(kBadInput) with file and offset when the file ends earlier.
  void read(std::uint64_t offset, void* to, std::size_t count) const;

 private:
  std::filesystem::path path_;
  int descriptor_;
  std::uint64_t size_ = 0;
};

// Reads a whole file of at most `limit` bytes. Throws Error(kBadInput) for a longer one.
void read_whole(const std::filesystem::path& path, std::uint64_t limit, std::vector<std::uint8_t>& to);

}  // namespace distbelief::data
