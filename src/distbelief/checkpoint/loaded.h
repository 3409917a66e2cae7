#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "distbelief/checkpoint/safetensors.h"

namespace distbelief::checkpoint {

// A checkpoint on disk.
struct Entry {
  std::int64_t step = 0;
  std::filesystem::path folder;
};

// Index of the tensors in all files of a folder, with pieces joined; for a single file, its own index. Throws
// Error(kBadInput) when two files have a tensor of the same name or pieces do not fit.
TensorIndex index_of(const std::filesystem::path& folder, const std::vector<SafetensorsFile>& files);

// A checkpoint that was read and verified. Owns the mappings behind the tensors; data that was not read is on
// the disk, not in memory. Immutable, so any thread may read.
struct Loaded {
  Entry entry;
  nlohmann::json manifest;
  std::vector<SafetensorsFile> files;  // one, or one for each part
  TensorIndex tensors;                 // of all files

  const nlohmann::json& progress() const { return manifest.at("progress"); }
  std::string weights_sha256() const { return manifest.at("weights_sha256").get<std::string>(); }
  bool has(const std::string& name) const { return tensors.has(name); }
  const TensorView& tensor(const std::string& name) const { return tensors.tensor(name); }
};

// Writes the tensors whose names begin with `prefix` to one safetensors file, with the prefix removed.
// Streams them from the mappings to the disk; only a tensor in pieces is copied. Throws Error(kBadInput) when
// no tensor matches, Error(kUnavailable) when the disk refuses the file; then nothing is left behind.
void export_weights(const Loaded& loaded, const std::string& prefix, const std::filesystem::path& path,
                    const Metadata& metadata);

}  // namespace distbelief::checkpoint
