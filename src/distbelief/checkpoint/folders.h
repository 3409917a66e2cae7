#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "distbelief/base/error.h"

// Folder operations for checkpoints. Blocks on the disk.
namespace distbelief::checkpoint {

// Converts a step to its folder's name, step-00000123, and back.
std::string folder_name(std::int64_t step);
std::optional<std::int64_t> step_of(const std::string& name);

Error cannot_use(const std::filesystem::path& path, const std::error_code& reason);  // kUnavailable

// The entries of a folder; none when it does not exist. Throws Error(kUnavailable).
std::vector<std::filesystem::path> children(const std::filesystem::path& folder);

// Creates the folder and its parents, and syncs them. Throws Error(kUnavailable).
void create_durably(const std::filesystem::path& folder);

// A folder that is removed unless move_to() gave it its final name. Not thread-safe.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::filesystem::path path);  // throws Error(kUnavailable)
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Renames the folder to `target`. An existing `target` swaps places with it, and the destructor removes
  // that one instead. Throws Error(kUnavailable).
  void move_to(const std::filesystem::path& target);

 private:
  std::filesystem::path path_;
};

}  // namespace distbelief::checkpoint
