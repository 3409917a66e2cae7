#include "distbelief/checkpoint/folders.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <utility>

#include "distbelief/base/durable_file.h"

namespace distbelief::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";

[[noreturn]] void fail(const fs::path& path, const std::error_code& reason) {
  throw cannot_use(path, reason);
}

std::error_code last_error() { return {errno, std::generic_category()}; }

}  // namespace

std::string folder_name(std::int64_t step) { return fmt::format("{}{:08}", kStepPrefix, step); }

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  std::int64_t step = -1;
  const char* digits = name.data() + kStepPrefix.size();
  const auto parsed = std::from_chars(digits, name.data() + name.size(), step);
  if (parsed.ec != std::errc() || step < 0 || folder_name(step) != name) return std::nullopt;
  return step;
}

Error cannot_use(const fs::path& path, const std::error_code& reason) {
  return Error(ErrorCode::kUnavailable,
               fmt::format("cannot use {}: {}; check the path, its permissions and the disk", path.string(),
                           reason.message()));
}

std::vector<fs::path> children(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  fs::directory_iterator next(folder, error);
  if (error == std::errc::no_such_file_or_directory) return paths;
  while (!error && next != fs::directory_iterator()) {
    paths.push_back(next->path());
    next.increment(error);
  }
  if (error) fail(folder, error);
  return paths;
}

void create_durably(const fs::path& folder) {
  std::error_code error;
  const bool created = fs::create_directories(folder, error);
  if (error) fail(folder, error);
  if (created) sync_directory(fs::absolute(folder / "..").lexically_normal());
}

TemporaryFolder::TemporaryFolder(fs::path path) : path_(std::move(path)) {
  std::error_code error;
  fs::remove_all(path_, error);  // left by an earlier process with the same id
  if (!error) fs::create_directory(path_, error);
  if (error) fail(path_, error);
}

TemporaryFolder::~TemporaryFolder() {
  // Renames the folder first, so that a process that writes to it by name cannot refill it meanwhile.
  const fs::path doomed = path_.string() + "-gone";
  std::error_code error;
  fs::rename(path_, doomed, error);
  fs::remove_all(error ? path_ : doomed, error);
}

void TemporaryFolder::move_to(const fs::path& target) {
  if (std::rename(path_.c_str(), target.c_str()) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST) fail(target, last_error());
  if (renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) return;
  // Some file systems cannot exchange two names.
  if (errno != EINVAL && errno != ENOSYS) fail(target, last_error());
  const fs::path old = path_.string() + "-old";
  if (std::rename(target.c_str(), old.c_str()) != 0) fail(target, last_error());
  const bool moved = std::rename(path_.c_str(), target.c_str()) == 0;
  const std::error_code error = last_error();
  std::rename(old.c_str(), (moved ? path_ : target).c_str());  // if this fails, prune() removes it
  if (!moved) fail(target, error);
}

}  // namespace distbelief::checkpoint
