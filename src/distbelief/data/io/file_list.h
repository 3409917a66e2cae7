#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace distbelief::data {

struct FoundFile {
  std::filesystem::path path;
  std::string name;  // relative to the listed folder; for a single file, its own name
  std::uint64_t bytes = 0;
  std::int64_t time = 0;  // last write time in units of the file system
};

struct FileListOptions {
  std::filesystem::path except{};  // a folder to skip
  std::size_t most_looked_at = std::numeric_limits<std::size_t>::max();
};

// Lists every file at `place`, a file or a folder, sorted by path; empty when nothing is there. Skips run
// folders (with a job.toml), which change while others use the data beside them. With more than
// `most_looked_at` files, all sizes and times are 0. A file that disappears meanwhile has size 0.
std::vector<FoundFile> list_files(const std::string& place, const FileListOptions& options = {});

}  // namespace distbelief::data
