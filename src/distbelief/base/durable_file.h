#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "distbelief/base/hash.h"

namespace distbelief {

// What identifies the content of a written file.
struct FileStamp {
  std::uint64_t bytes = 0;
  std::uint64_t xxh3 = 0;
};

// The seam where tests make a save fail, block or end: called with what is about to be done, such as "sync
// state.safetensors". What it throws is a failure at that place. Empty outside tests.
using AtPoint = std::function<void(const std::string& point)>;

// What a file that was committed survives. Without the disk's word for it a commit takes no time.
enum class Survives { kPowerCuts, kKills };

// A file that appears whole or not at all: written under a temporary name beside its target, moved
// there by commit(). Without a commit the destructor removes the temporary. Every failure is an
// Error(kUnavailable) with the target, the reason and the room that is needed. One writer per target;
// not thread-safe; blocks on the disk.
class DurableFile {
 public:
  struct Options {
    std::uint64_t bytes_needed = 0;  // for messages; 0: not known before
    Survives survives = Survives::kPowerCuts;
    AtPoint at{};
  };
  explicit DurableFile(std::filesystem::path target);
  DurableFile(std::filesystem::path target, Options options);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(const void* data, std::size_t bytes);
  std::uint64_t bytes() const { return bytes_written_; }
  // Content and name are on the disk when this returns, unless kills are all that it shall survive.
  FileStamp commit();

 private:
  [[noreturn]] void fail(int error) const;
  void at(std::string_view action) const;

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  Options options_;
  std::uint64_t bytes_written_ = 0;
  Xxh3 checksum_;
  int descriptor_ = -1;
};

FileStamp write_durably(const std::filesystem::path& target, std::string_view text, const AtPoint& at = {});
// The pieces, one after the other, as a file that survives kills: for what is written often, and can be made
// anew.
void write_atomically(const std::filesystem::path& target, std::span<const std::string_view> pieces);

// Makes the names in a directory durable. Throws Error(kUnavailable).
void sync_directory(const std::filesystem::path& directory);

// How the name of everything unfinished begins.
inline constexpr std::string_view kTemporaryPrefix = ".tmp-";

}  // namespace distbelief
