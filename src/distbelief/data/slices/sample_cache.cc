#include "distbelief/data/slices/sample_cache.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <system_error>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/base/hash.h"
#include "distbelief/data/io/file_list.h"
#include "distbelief/data/io/file_lock.h"
#include "distbelief/data/slices/index.h"
#include "distbelief/data/slices/pack.h"
#include "distbelief/data/slices/packed_source.h"

namespace distbelief::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFingerprintDigits = 24;
// Incremented when a set gets different samples under the same name and options, so that old caches are not
// used.
constexpr int kSamplesVersion = 3;

// Name, size and time of every file at `place`, so that changed files change the hash.
std::string files_text(const std::string& place, const fs::path& caches) {
  std::string text;
  for (const FoundFile& file : list_files(place, {.except = caches}))
    text += fmt::format("{} {} {}\n", file.path.string(), file.bytes, file.time);
  return text;
}

void pack_into(const fs::path& folder, const DataSet& set, const std::string& origin,
               const AroundPacking& around) {
  const auto remove = [&] { remove_packing(folder); };
  const auto pack_all = [&] {
    const int threads = int(std::clamp(std::thread::hardware_concurrency(), 1U, 8U));
    try {
      pack(set, {.folder = folder, .threads = threads, .origin = origin, .progress = {}});
    } catch (...) {
      remove();
      throw;
    }
  };
  if (around)
    around(pack_all, remove);
  else
    pack_all();
}

}  // namespace

std::string cache_fingerprint(const DataSet& set, const CacheKey& key) {
  const SampleSpec& spec = set.train->spec();
  std::string text =
      fmt::format("{} {}\n{} {}\n{} {} {} {} {}\n", kSamplesVersion, key.name, set.train->size(),
                  set.test->size(), to_string(spec.input_type), to_string(spec.input_shape),
                  to_string(spec.target_type), to_string(spec.target_shape), spec.classes);
  if (spec.table_features) text += fmt::format("{} {}\n", spec.target_unit, spec.target_mean);
  for (const auto& [name, value] : key.options)
    if (name != "cache") text += fmt::format("{} = {}\n", name, to_string(value));
  text += key.learnt;
  for (const std::string& place : key.places)
    text += fmt::format("{}\n{}", place, files_text(place, key.folder));
  Sha256 hash;
  hash.update(text.data(), text.size());
  return hash.hex().substr(0, kFingerprintDigits);
}

DataSet cached(DataSet set, const CacheKey& key, const AroundPacking& around) {
  const fs::path folder = key.folder / fmt::format("{}-{}", key.name, cache_fingerprint(set, key));
  if (!fs::exists(folder / kIndexName)) {
    std::error_code failure;
    fs::create_directories(key.folder, failure);
    const FileLock lock(folder.string() + ".lock",
                        {.waiting = fmt::format("another process packs '{}'", folder.filename().string()),
                         .advice = "set data.cache to a folder that can be written"});
    if (!fs::exists(folder / kIndexName)) {
      spdlog::info("packing {} + {} samples into '{}', once", set.train->size(), set.test->size(),
                   folder.string());
      pack_into(folder, set, key.name, around);
    }
  }
  DataSet packed = open_packed(folder.string(), {});
  packed.learnt = std::move(set.learnt);  // an earlier version packed without it
  packed.held_out_of = set.held_out_of;
  return packed;
}

}  // namespace distbelief::data
