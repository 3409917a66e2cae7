#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "distbelief/base/hash.h"

namespace distbelief::checkpoint {

// What identifies the content of a written file.
struct FileStamp {
  std::uint64_t bytes = 0;
  std::uint64_t xxh3 = 0;
};

// The seam where tests make a save fail, block or end: called with what is about to be done, such as "sync
// state.safetensors". What it throws is a failure at that place. Empty outside tests.
using AtPoint = std::function<void(const std::string& point)>;

// A file that appears whole or not at all: written under a temporary name beside its target, moved
// there by commit(). Without a commit the destructor removes the temporary. Every failure is an
// Error(kUnavailable) with the target, the reason and the room that is needed. One writer per target;
// not thread-safe; blocks on the disk.
class DurableFile {
 public:
  DurableFile(std::filesystem::path target, std::uint64_t bytes_needed, AtPoint at = {});
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(const void* data, std::size_t bytes);
  // Content and name are on the disk when this returns.
  FileStamp commit();

 private:
  [[noreturn]] void fail(int error) const;
  void at(std::string_view action) const;

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  std::uint64_t bytes_needed_;
  std::uint64_t bytes_written_ = 0;
  AtPoint at_;
  Xxh3 checksum_;
  int descriptor_ = -1;
};

FileStamp write_durably(const std::filesystem::path& target, std::string_view text, const AtPoint& at = {});

// Makes the names in a directory durable. Throws Error(kUnavailable).
void sync_directory(const std::filesystem::path& directory);

// How the name of everything unfinished begins.
inline constexpr std::string_view kTemporaryPrefix = ".tmp-";

}  // namespace distbelief::checkpoint
