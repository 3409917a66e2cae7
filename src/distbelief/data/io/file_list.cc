#include "distbelief/data/io/file_list.h"

#include <algorithm>
#include <system_error>

namespace distbelief::data {
namespace {

namespace fs = std::filesystem;

void look_at(FoundFile& file) {
  std::error_code ignored;
  const fs::directory_entry entry(file.path, ignored);
  const auto bytes = entry.file_size(ignored);
  file.bytes = ignored ? 0 : bytes;
  file.time = entry.last_write_time(ignored).time_since_epoch().count();
}

bool is_passed_over(const fs::path& folder, const fs::path& except) {
  std::error_code ignored;
  return fs::exists(folder / "job.toml", ignored) || fs::equivalent(folder, except, ignored);
}

}  // namespace

std::vector<FoundFile> list_files(const std::string& place, const FileListOptions& options) {
  std::error_code failure;
  std::vector<FoundFile> files;
  if (place.empty() || !fs::exists(place, failure)) return files;
  if (fs::is_regular_file(place, failure))
    files.push_back({.path = place, .name = fs::path(place).filename().string()});
  else
    for (auto at = fs::recursive_directory_iterator(place, failure); !failure && at != fs::end(at);
         at.increment(failure)) {
      if (at->is_directory(failure) && is_passed_over(at->path(), options.except))
        at.disable_recursion_pending();
      if (at->is_regular_file(failure))
        files.push_back({.path = at->path(), .name = at->path().lexically_relative(place).string()});
    }
  std::ranges::sort(files, {},
                    [](const FoundFile& file) -> const std::string& { return file.path.native(); });
  if (files.size() <= options.most_looked_at)
    for (FoundFile& file : files) look_at(file);
  return files;
}

}  // namespace distbelief::data
