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

// The tensors of all files of a folder, put together where they are in pieces; of one file alone, its own
// index. Throws Error(kBadInput) when two files have a tensor of the same name, or pieces do not fit.
TensorIndex index_of(const std::filesystem::path& folder, const std::vector<SafetensorsFile>& files);

// A checkpoint that was read and verified. Owns the mappings behind the tensors; what was not read lies on
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

// Writes one safetensors file of the tensors whose names begin with `prefix`, without it. They go from the
// mappings to the disk: no copy is held but of one that is in pieces. Throws Error(kBadInput) when there are
// none, Error(kUnavailable) when the disk will not take them; then nothing is left behind.
void export_weights(const Loaded& loaded, const std::string& prefix, const std::filesystem::path& path,
                    const Metadata& metadata);

}  // namespace distbelief::checkpoint
