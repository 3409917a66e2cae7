#pragma once

#include <cstdint>
#include <string>

#include "distbelief/data/slices/index.h"
#include "distbelief/data/source.h"

namespace distbelief::data {

struct PackedOptions {
  std::uint64_t cache_bytes = std::uint64_t{256} << 20;   // decompressed slices of both parts
  std::uint64_t transfer_bytes = std::uint64_t{4} << 20;  // limit of one transfer, decompressed
  int threads = 2;                                        // threads that read and decompress ahead
  std::string ca_file{};                                  // HttpClient::Options::ca_file
};

// Opens both parts of a packed set in a folder or behind a URL. They share one cache and its threads. Throws
// Error(kUnavailable) when there is no index, and Error(kBadInput) when it is damaged or the cache is too
// small for a few slices. Reading a damaged slice throws Error(kBadInput) with file and offset.
DataSet open_packed(const std::string& place, const PackedOptions& options);

SliceIndex read_slice_index(const std::string& place, const std::string& ca_file = {});

}  // namespace distbelief::data
