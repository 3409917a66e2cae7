#include "distbelief/checkpoint/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <system_error>
#include <utility>

#include "distbelief/checkpoint/manifest.h"

namespace distbelief::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kBestName = "best.json";

std::string folder_name(std::int64_t step) { return fmt::format("{}{:08}", kStepPrefix, step); }

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  std::int64_t step = -1;
  const char* digits = name.data() + kStepPrefix.size();
  const auto parsed = std::from_chars(digits, name.data() + name.size(), step);
  if (parsed.ec != std::errc() || step < 0 || folder_name(step) != name) return std::nullopt;
  return step;
}

bool is_whole(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / kManifestName, ignored) && fs::exists(folder / kStateName, ignored);
}

[[noreturn]] void fail(const fs::path& path, const std::error_code& reason) {
  throw Error(ErrorCode::kUnavailable,
              fmt::format("cannot use {}: {}; check the path, its permissions and the disk", path.string(),
                          reason.message()));
}

std::error_code last_error() { return {errno, std::generic_category()}; }

// A folder that is removed unless it was moved to its place.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(fs::path path) : path_(std::move(path)) {
    std::error_code error;
    fs::remove_all(path_, error);  // left by a process with the same id
    if (!error) fs::create_directory(path_, error);
    if (error) fail(path_, error);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const fs::path& path() const { return path_; }

  // What stood there before changes places with it, and so is removed in its stead.
  void move_to(const fs::path& target) {
    if (std::rename(path_.c_str(), target.c_str()) == 0) return;
    if (errno != ENOTEMPTY && errno != EEXIST) fail(target, last_error());
    if (renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) return;
    // Not every file system can exchange two names.
    if (errno != EINVAL && errno != ENOSYS) fail(target, last_error());
    const fs::path old = path_.string() + "-old";
    if (std::rename(target.c_str(), old.c_str()) != 0) fail(target, last_error());
    const bool moved = std::rename(path_.c_str(), target.c_str()) == 0;
    const std::error_code error = last_error();
    std::rename(old.c_str(), (moved ? path_ : target).c_str());  // else it stays for prune() to find
    if (!moved) fail(target, error);
  }

 private:
  fs::path path_;
};

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

void write_checkpoint(const fs::path& folder, const Snapshot& snapshot) {
  create_durably(folder);
  TemporaryFolder temporary(folder /
                            fmt::format("{}{}-{}", kTemporaryPrefix, folder_name(snapshot.step), getpid()));
  const FileStamp state =
      write_safetensors(temporary.path() / kStateName, snapshot.tensors, snapshot.metadata);
  write_durably(temporary.path() / kManifestName, make_manifest(snapshot, state).dump(2) + "\n");
  temporary.move_to(folder / folder_name(snapshot.step));
  sync_directory(folder);
}

}  // namespace

Store::Store(fs::path folder) : folder_(std::move(folder)) {}

void Store::save(const Snapshot& snapshot) {
  if (snapshot.step < 0 || !snapshot.progress.is_object()) {
    throw Error(ErrorCode::kInternal,
                "a checkpoint needs a step from 0 on and a JSON object of progress counters");
  }
  try {
    write_checkpoint(folder_, snapshot);
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("the checkpoint of step {} was not saved: {}", snapshot.step, error.message()));
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kInternal,
                fmt::format("the progress of step {} is no JSON: {}", snapshot.step, error.what()));
  }
}

std::vector<Entry> Store::list() const {
  std::vector<Entry> entries;
  for (const fs::path& path : children(folder_)) {
    const auto step = step_of(path.filename().string());
    if (step && is_whole(path)) entries.push_back({.step = *step, .folder = path});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.step < b.step; });
  return entries;
}

Loaded Store::load(const Entry& entry) const {
  const fs::path manifest_path = entry.folder / kManifestName;
  Json manifest = read_manifest(manifest_path);
  if (manifest.at("step") != entry.step) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} is of step {}, its folder of step {}: was it renamed?",
                            manifest_path.string(), manifest.at("step").dump(), entry.step));
  }
  MappedFile file(entry.folder / kStateName);
  verify_file(manifest, file);
  return {.entry = entry, .manifest = std::move(manifest), .state = SafetensorsFile(std::move(file))};
}

std::optional<Loaded> Store::load_latest(const DamageReport& report) const {
  std::vector<Entry> entries = list();
  std::reverse(entries.begin(), entries.end());
  for (const Entry& entry : entries) {
    try {
      return load(entry);
    } catch (const Error& error) {
      report(entry, error);
    }
  }
  return std::nullopt;
}

void Store::mark_best(const Entry& entry) {
  if (!is_whole(folder_ / folder_name(entry.step))) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("there is no checkpoint of step {} in {} to mark as the best", entry.step,
                            folder_.string()));
  }
  write_durably(folder_ / kBestName, Json{{"step", entry.step}}.dump() + "\n");
}

std::optional<Entry> Store::best() const {
  const fs::path path = folder_ / kBestName;
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  const MappedFile file(path);
  const char* text = reinterpret_cast<const char*>(file.bytes().data());
  const Json record = Json::parse(text, text + file.bytes().size(), nullptr, false);
  if (!record.is_object() || !record.value("step", Json()).is_number_unsigned()) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} is damaged; remove it to go on without a best checkpoint", path.string()));
  }
  Entry entry{.step = record.at("step").get<std::int64_t>(), .folder = {}};
  entry.folder = folder_ / folder_name(entry.step);
  return is_whole(entry.folder) ? std::optional(std::move(entry)) : std::nullopt;
}

void Store::prune(std::size_t keep) {
  const std::optional<Entry> spared = best();
  std::vector<Entry> entries = list();
  entries.resize(entries.size() - std::min(keep, entries.size()));
  for (const Entry& entry : entries) {
    if (spared && spared->step == entry.step) continue;
    // Renamed first: a half removed checkpoint never bears the name of a whole one.
    const fs::path doomed = folder_ / fmt::format("{}pruned-{}", kTemporaryPrefix, folder_name(entry.step));
    if (std::rename(entry.folder.c_str(), doomed.c_str()) != 0) fail(entry.folder, last_error());
  }
  for (const fs::path& path : children(folder_)) {
    std::error_code error;
    if (path.filename().string().starts_with(kTemporaryPrefix)) fs::remove_all(path, error);
    if (error) fail(path, error);
  }
}

}  // namespace distbelief::checkpoint
