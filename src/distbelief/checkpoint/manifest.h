#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "distbelief/checkpoint/durable_file.h"
#include "distbelief/checkpoint/mapped_file.h"
#include "distbelief/checkpoint/store.h"

// manifest.json: what a checkpoint holds. Keys: format, step, progress (the caller's counters),
// weights_sha256, files (name to bytes and xxh3), and xxh3 of the manifest itself without that key.
namespace distbelief::checkpoint {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::string_view kStateName = "state.safetensors";

nlohmann::json make_manifest(const Snapshot& snapshot, const FileStamp& state);

// Reads and verifies. Throws Error(kBadInput) with the file and what is wrong with it.
nlohmann::json read_manifest(const std::filesystem::path& path);

// Whether a file is the one that the manifest describes. Throws Error(kBadInput).
void verify_file(const nlohmann::json& manifest, const MappedFile& file);

}  // namespace distbelief::checkpoint
