#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "distbelief/checkpoint/mapped_file.h"
#include "distbelief/checkpoint/safetensors.h"
#include "distbelief/checkpoint/store.h"

// manifest.json: what a checkpoint holds. Keys: format, step, progress (the caller's counters),
// weights_sha256, files (name to bytes, xxh3, header and tensors), and xxh3 of the manifest itself without
// that key. Format 2 has one file. Format 3, of checkpoints that several processes wrote, has a file for each
// part, and the key attempt. Format 1 had no header and tensors; it is read, not written.
namespace distbelief::checkpoint {

inline constexpr std::string_view kManifestName = "manifest.json";

// KIND-00002-of-00003 for part 1 of 3.
std::string part_name(std::string_view kind, int part, int parts);
// The file of a part: state.safetensors when it is the only one, else state-00002-of-00003.safetensors.
std::string state_name(int part, int parts);
bool is_state_name(const std::string& name);

// What the manifest has of a file.
nlohmann::json file_record(const SafetensorsStamp& stamp);
bool is_file_record(const nlohmann::json& record);

// `files` has the record of each part in turn.
nlohmann::json make_manifest(const Snapshot& snapshot, const std::string& weights_sha256,
                             const std::vector<nlohmann::json>& files);
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
