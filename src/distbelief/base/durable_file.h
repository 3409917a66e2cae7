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

// Identifies the content of a written file.
struct FileStamp {
  std::uint64_t bytes = 0;
  std::uint64_t xxh3 = 0;
};

// Fault injection for tests: called with the action that comes next, such as "sync state.safetensors". It may
// block or end the process; an exception makes that action fail. Empty outside tests.
using AtPoint = std::function<void(const std::string& point)>;

// Failures that a committed file survives. kKills skips the fsync, so a commit costs little time.
enum class Survives { kPowerCuts, kKills };

// A file that appears whole or not at all. It is written under a temporary name beside its target; commit()
// renames it. Without a commit the destructor removes the temporary. Every failure is an Error(kUnavailable)
// with the target, the reason and the space needed. One writer per target; not thread-safe; blocks on the
// disk.
class DurableFile {
 public:
  struct Options {
    std::uint64_t bytes_needed = 0;  // for messages; 0: unknown
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
  // With kPowerCuts, content and name are on the disk when this returns.
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
// Writes the pieces one after the other to a file that survives kills. For files that are written often and
// can be made again.
void write_atomically(const std::filesystem::path& target, std::span<const std::string_view> pieces);

// Makes the names in a directory durable. Throws Error(kUnavailable).
void sync_directory(const std::filesystem::path& directory);

// Prefix of the names of all unfinished files and folders.
inline constexpr std::string_view kTemporaryPrefix = ".tmp-";

}  // namespace distbelief
