#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/data/source.h"

namespace distbelief::data {

// Called to pack a cache: it must call `pack`. The caller may call `remove` from any thread to delete an
// incomplete cache, for example when the program ends meanwhile.
using AroundPacking =
    std::function<void(const std::function<void()>& pack, const std::function<void()>& remove)>;

// Identifies the input of a cache: other settings or other files give another cache.
struct CacheKey {
  std::filesystem::path folder;  // folder of all caches
  std::string name;
  std::vector<std::string> places;  // files or folders of the set's data; empty ones are ignored
  OptionMap options;
  std::string learnt{};  // the fitted preprocessing, when it differs from what these files give
};

// Returns the samples of `set` from packed slices under `key.folder`. Packs them first if they are missing
// and always reads from the slices, so the first run has the same order and bits as later runs. One process
// packs while others wait; the next one repeats a packing whose process died. Throws Error(kUnavailable) when
// the folder cannot be used, and Error(kTimeout) when another process does not finish. A packing that fails
// leaves nothing behind.
DataSet cached(DataSet set, const CacheKey& key, const AroundPacking& around = {});

// The name of the cache folder: a hash of everything that determines the samples.
std::string cache_fingerprint(const DataSet& set, const CacheKey& key);

}  // namespace distbelief::data
