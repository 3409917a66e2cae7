#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "distbelief/checkpoint/mapped_file.h"
#include "distbelief/checkpoint/safetensors.h"
#include "distbelief/checkpoint/store.h"

// manifest.json: what a checkpoint holds. Keys: format, step, progress (the caller's counters),
// weights_sha256, files (name to bytes, xxh3 and the parts of the file), and xxh3 of the manifest itself
// without that key. Format 1 had no parts; it is read, not written.
namespace distbelief::checkpoint {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::string_view kStateName = "state.safetensors";

nlohmann::json make_manifest(const Snapshot& snapshot, const std::string& weights_sha256,
                             const SafetensorsStamp& state);
// The file's text. Every byte of it counts: a file that differs from this is damaged.
std::string manifest_text(const nlohmann::json& manifest);

// Reads and verifies. Throws Error(kBadInput) with the file and what is wrong with it.
nlohmann::json read_manifest(const std::filesystem::path& path);

// Whether a file is the one that the manifest describes. Throws Error(kBadInput) with the first tensor that
// is cut off, or the damaged ones.
void verify_file(const nlohmann::json& manifest, const MappedFile& file);

// A JSON object with its own checksum under the key xxh3, and whether it still has the right one.
nlohmann::json sealed(nlohmann::json object);
bool is_sealed(const nlohmann::json& object);

}  // namespace distbelief::checkpoint
