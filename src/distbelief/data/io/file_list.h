#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace distbelief::data {

struct FoundFile {
  std::filesystem::path path;
  std::string name;  // below the place that was looked at; of a file its own
  std::uint64_t bytes = 0;
  std::int64_t time = 0;  // when it was last written, in the file system's units
};

struct FileListOptions {
  std::filesystem::path except{};  // a folder that is passed over
  std::size_t most_looked_at = std::numeric_limits<std::size_t>::max();
};

// Every file at `place`, which is a file or a folder, by path; none where nothing is. Folders of runs (with a
// job.toml) are passed over: they change while others use the data beside them. When there are more than
// `most_looked_at`, sizes and times are 0 of all. What goes away meanwhile counts as empty.
std::vector<FoundFile> list_files(const std::string& place, const FileListOptions& options = {});

}  // namespace distbelief::data
