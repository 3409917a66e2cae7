#include "distbelief/checkpoint/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "distbelief/base/durable_file.h"
#include "distbelief/base/json_text.h"
#include "distbelief/checkpoint/folders.h"
#include "distbelief/checkpoint/manifest.h"

namespace distbelief::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kBestName = "best.json";

// Ignores missing parts; load() names them.
bool is_whole(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / kManifestName, ignored)) return false;
  const std::vector<fs::path> files = children(folder);
  return std::any_of(files.begin(), files.end(),
                     [](const fs::path& file) { return is_state_name(file.filename().string()); });
}

std::vector<SafetensorsFile> open_files(const fs::path& folder, const Json& manifest) {
  std::vector<SafetensorsFile> files;
  for (const auto& item : manifest.at("files").items()) {
    const fs::path path = folder / item.key();
    std::error_code ignored;
    if (!fs::exists(path, ignored)) {
      throw Error(ErrorCode::kBadInput, fmt::format("{} is missing, one of {} files; use an older checkpoint",
                                                    path.string(), manifest.at("files").size()));
    }
    MappedFile file(path);
    verify_file(manifest, file);
    files.emplace_back(std::move(file));
  }
  return files;
}

std::string best_text(const Json& record) { return record.dump() + "\n"; }

// {"step": N} with its checksum; older versions wrote no checksum.
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
  std::vector<SafetensorsFile> files = open_files(entry.folder, manifest);
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
  const Json record = json_or_discarded(text);
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
    // Rename first, so that a half removed checkpoint never has the name of a whole one.
    const fs::path doomed = folder_ / fmt::format("{}pruned-{}", kTemporaryPrefix, folder_name(entry.step));
    at("retire", entry.folder);
    std::error_code error;
    fs::rename(entry.folder, doomed, error);
    if (error) throw cannot_use(entry.folder, error);
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
