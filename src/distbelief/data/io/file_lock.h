#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace distbelief::data {

// An exclusive lock on a file or folder, for one process at a time (flock). The system releases it when the
// process ends, however it ends. Use from one thread.
class FileLock {
 public:
  struct Options {
    std::string waiting;  // logged while another process holds the lock
    std::string advice;   // added to the error when the lock cannot be taken
    std::chrono::hours deadline{6};
  };
  // `path` is a folder, or a file, which is created if it is missing. Blocks. Throws Error(kUnavailable) when
  // it cannot be opened, and Error(kTimeout) when another process holds it until the deadline.
  FileLock(const std::filesystem::path& path, const Options& options);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace distbelief::data
