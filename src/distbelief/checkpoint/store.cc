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

Error cannot_use(const fs::path& path, const std::error_code& reason) {
  return Error(ErrorCode::kUnavailable,
               fmt::format("cannot use {}: {}; check the path, its permissions and the disk", path.string(),
                           reason.message()));
}

[[noreturn]] void fail(const fs::path& path, const std::error_code& reason) {
  throw cannot_use(path, reason);
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

std::string best_text(const Json& record) { return record.dump() + "\n"; }

// {"step": N} with its checksum; older versions wrote it without.
bool is_best_record(const Json& record, std::string_view text) {
  return record.is_object() && record.value("step", Json()).is_number_unsigned() &&
         (record.size() == 1 || is_sealed(record)) && text == best_text(record);
}

}  // namespace

Store::Store(fs::path folder) : Store(std::move(folder), Options()) {}

Store::Store(fs::path folder, Options options) : folder_(std::move(folder)), options_(std::move(options)) {}

void Store::at(std::string_view action, const fs::path& path) const {
  if (options_.at) options_.at(fmt::format("{} {}", action, path.filename().string()));
}

void Store::check_turn() const {
  if (!options_.may_commit || options_.may_commit()) return;
  throw Error(ErrorCode::kAborted,
              fmt::format("another generation of workers has taken over and writes {} now; nothing is to be "
                          "done, this one ends",
                          folder_.string()));
}

void Store::write(const Snapshot& snapshot) {
  const fs::path target = folder_ / folder_name(snapshot.step);
  at("begin", target);
  check_turn();
  create_durably(folder_);
  remove_unfinished();  // what will not go is no reason not to save; prune() reports it
  TemporaryFolder temporary(folder_ /
                            fmt::format("{}{}-{}", kTemporaryPrefix, folder_name(snapshot.step), getpid()));
  const SafetensorsStamp state =
      write_safetensors(temporary.path() / kStateName, snapshot.tensors, snapshot.metadata, options_.at);
  const std::string weights_sha256 = sha256_by_name(snapshot.tensors.first(snapshot.weights));
  write_durably(temporary.path() / kManifestName,
                manifest_text(make_manifest(snapshot, weights_sha256, state)), options_.at);
  at("rename", target);
  check_turn();
  temporary.move_to(target);
  at("sync the name of", target);
  sync_directory(folder_);
}

void Store::save(const Snapshot& snapshot) {
  DISTBELIEF_INVARIANT(snapshot.weights <= snapshot.tensors.size());
  if (snapshot.step < 0 || !snapshot.progress.is_object()) {
    throw Error(ErrorCode::kInternal,
                "a checkpoint needs a step from 0 on and a JSON object of progress counters");
  }
  try {
    write(snapshot);
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
  std::vector<SafetensorsFile> files;
  files.emplace_back(std::move(file));
  TensorIndex tensors = index_of(entry.folder, files);
  return {.entry = entry,
          .manifest = std::move(manifest),
          .files = std::move(files),
          .tensors = std::move(tensors)};
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
  check_turn();
  write_durably(folder_ / kBestName, best_text(sealed({{"step", entry.step}})), options_.at);
}

std::optional<Entry> Store::best() const {
  const fs::path path = folder_ / kBestName;
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  const MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  const Json record = Json::parse(text, nullptr, false);
  if (!is_best_record(record, text)) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} is damaged; remove it to go on without a best checkpoint", path.string()));
  }
  Entry entry{.step = record.at("step").get<std::int64_t>(), .folder = {}};
  entry.folder = folder_ / folder_name(entry.step);
  return is_whole(entry.folder) ? std::optional(std::move(entry)) : std::nullopt;
}

void Store::prune(std::size_t keep) {
  check_turn();
  const std::optional<Entry> spared = best();
  std::vector<Entry> entries = list();
  entries.resize(entries.size() - std::min(keep, entries.size()));
  for (const Entry& entry : entries) {
    if (spared && spared->step == entry.step) continue;
    // Renamed first: a half removed checkpoint never bears the name of a whole one.
    const fs::path doomed = folder_ / fmt::format("{}pruned-{}", kTemporaryPrefix, folder_name(entry.step));
    at("retire", entry.folder);
    if (std::rename(entry.folder.c_str(), doomed.c_str()) != 0) fail(entry.folder, last_error());
  }
  if (const std::optional<Error> failure = remove_unfinished()) throw *failure;
}

std::optional<Error> Store::remove_unfinished() {
  std::optional<Error> failure;
  for (const fs::path& path : children(folder_)) {
    if (!path.filename().string().starts_with(kTemporaryPrefix)) continue;
    at("remove", path);
    std::error_code error;
    fs::remove_all(path, error);
    if (error && !failure) failure = cannot_use(path, error);
  }
  return failure;
}

}  // namespace distbelief::checkpoint
