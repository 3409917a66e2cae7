#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "distbelief/data/slices/index.h"
#include "distbelief/data/source.h"

namespace distbelief::data {

struct PackOptions {
  std::filesystem::path folder;                        // destination; created if missing
  std::uint64_t slice_bytes = std::uint64_t{1} << 20;  // decompressed; a slice has at least one sample
  std::uint64_t slices_per_file = 16;
  int level = 3;  // zstd level
  int threads = 2;
  std::string origin;
  // Called regularly by one thread at a time with the samples done and the total. An exception from it ends
  // the packing.
  std::function<void(std::uint64_t done, std::uint64_t all)> progress;
};

// Writes both parts of a set as files of slices, and the index once all of them are on disk: a folder without
// an index is not a packed set. Removes the remains of an interrupted packing first. Blocks until it is done.
// Throws Error(kBadInput) when the folder holds a packed set or foreign files, Error(kUnavailable) when it
// cannot be written, and the exceptions of the source.
SliceIndex pack(const DataSet& set, const PackOptions& options);

// Removes the files that a packing wrote into `folder`, and the folder if it is then empty. A packing still
// in progress then fails. Keeps a complete packed set and foreign files.
void remove_packing(const std::filesystem::path& folder);

// Reads the number of samples per class from the source; empty unless every sample has exactly one class.
std::vector<std::uint64_t> class_balance(const Source& source);

}  // namespace distbelief::data
