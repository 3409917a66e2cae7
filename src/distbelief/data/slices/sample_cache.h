#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "distbelief/base/options.h"
#include "distbelief/data/source.h"

namespace distbelief::data {

// Calls what packs a cache. For who has to see to it that nothing is left when the program ends meanwhile:
// `remove` removes what is there so far, from any thread.
using AroundPacking =
    std::function<void(const std::function<void()>& pack, const std::function<void()>& remove)>;

// What a set was made from: other settings or other files are another cache.
struct CacheKey {
  std::filesystem::path folder;  // of all caches
  std::string name;
  std::vector<std::string> places;  // of its files: each a file or a folder; empty ones are nowhere
  OptionMap options;
  std::string learnt{};  // by which files become samples, where it is not what these files say
};

// The samples of `set` as packed slices under `key.folder`: written when they are not there yet, and always
// read from there, so that the first run has the order and the bits of the later ones. Of several processes
// one writes and the others wait; what one that died left is written again. Throws Error(kUnavailable) when
// the folder cannot be used, Error(kTimeout) when another process does not end. Of a packing that ends with
// an error nothing is left.
DataSet cached(DataSet set, const CacheKey& key, const AroundPacking& around = {});

// The name of its folder: a hash of everything that decides the samples.
std::string cache_fingerprint(const DataSet& set, const CacheKey& key);

}  // namespace distbelief::data
