#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "distbelief/base/error.h"

// The folders that checkpoints are made of. Blocks on the disk.
namespace distbelief::checkpoint {

// step-00000123, and back.
std::string folder_name(std::int64_t step);
std::optional<std::int64_t> step_of(const std::string& name);

Error cannot_use(const std::filesystem::path& path, const std::error_code& reason);  // kUnavailable

// What is in a folder; nothing when there is no such folder. Throws Error(kUnavailable).
std::vector<std::filesystem::path> children(const std::filesystem::path& folder);

// With all folders above it. Throws Error(kUnavailable).
void create_durably(const std::filesystem::path& folder);

// A folder that is removed unless it was moved to its place. Not thread-safe.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::filesystem::path path);  // throws Error(kUnavailable)
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // What stood there before changes places with it, and so is removed in its stead. Throws
  // Error(kUnavailable).
  void move_to(const std::filesystem::path& target);

 private:
  std::filesystem::path path_;
};

}  // namespace distbelief::checkpoint
