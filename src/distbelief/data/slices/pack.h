#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "distbelief/data/slices/index.h"
#include "distbelief/data/source.h"

namespace distbelief::data {

struct PackOptions {
  std::filesystem::path folder;                        // where to; made when it is not there
  std::uint64_t slice_bytes = std::uint64_t{1} << 20;  // decompressed, at most; one sample at least
  std::uint64_t slices_per_file = 16;
  int level = 3;  // of zstd
  int threads = 2;
  std::string origin;
  // Called now and then, from one thread at a time, with samples done and in all. What it throws ends the
  // packing.
  std::function<void(std::uint64_t done, std::uint64_t all)> progress;
};

// Writes both parts of a set as files of slices and, when all are on the disk, their index: a folder without
// an index is no packed set. What an interrupted packing left there is removed first. Blocks until it is
// done. Throws Error(kBadInput) when the folder has a packed set or something else in it,
// Error(kUnavailable) when it cannot be written, and whatever the source throws.
SliceIndex pack(const DataSet& set, const PackOptions& options);

// Removes what a packing into `folder` has written so far, and the folder if that was all; also while it is
// under way, which then fails. A whole packed set stays, and so do foreign files.
void remove_packing(const std::filesystem::path& folder);

// Samples of each class, read from the source; empty when they have not one class each.
std::vector<std::uint64_t> class_balance(const Source& source);

}  // namespace distbelief::data
