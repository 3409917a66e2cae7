#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace distbelief::data {

// A file that appears whole or not at all: written under a temporary name beside its target (".tmp-NAME"),
// on the disk and at its name when commit() returns. Without a commit the destructor removes it. Failures
// are Error(kUnavailable) with the target and the reason. One thread; blocks on the disk.
class WholeFile {
 public:
  explicit WholeFile(std::filesystem::path target);
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(const void* data, std::size_t bytes);
  std::uint64_t bytes() const { return bytes_; }
  void commit();

  static std::filesystem::path temporary_name(const std::filesystem::path& target);

 private:
  [[noreturn]] void fail(const char* action) const;

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  std::uint64_t bytes_ = 0;
  int descriptor_ = -1;
};

// Makes what was renamed in a folder durable. Throws Error(kUnavailable).
void sync_folder(const std::filesystem::path& folder);

}  // namespace distbelief::data
