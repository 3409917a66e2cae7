#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace distbelief::data {

// A file or folder that one process has at a time (flock); the system gives it back when that process ends,
// however it ends. One thread.
class FileLock {
 public:
  struct Options {
    std::string waiting;  // told when another process has it
    std::string advice;   // what to do when it cannot be had
    std::chrono::hours deadline{6};
  };
  // `path`: a folder, or a file, which is made when it is not there. Blocks. Throws Error(kUnavailable) when
  // it cannot be opened, Error(kTimeout) when another process keeps it.
  FileLock(const std::filesystem::path& path, const Options& options);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace distbelief::data
