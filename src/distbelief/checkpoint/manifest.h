#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "distbelief/checkpoint/mapped_file.h"
#include "distbelief/checkpoint/safetensors.h"
#include "distbelief/checkpoint/store.h"

// manifest.json lists the content of a checkpoint. Keys: format, step, progress (the caller's counters),
// weights_sha256, files (name to bytes, xxh3, header and tensors), and xxh3 of the manifest itself without
// that key. Format 2 has one file. Format 3, for checkpoints of several processes, has a file for each part
// and the key attempt. Format 1 lacked header and tensors; it is read but not written.
namespace distbelief::checkpoint {

inline constexpr std::string_view kManifestName = "manifest.json";

// KIND-00002-of-00003 for part 1 of 3.
std::string part_name(std::string_view kind, int part, int parts);
// The file name of a part: state.safetensors for a single part, else state-00002-of-00003.safetensors.
std::string state_name(int part, int parts);
bool is_state_name(const std::string& name);

// The manifest's record of a file.
nlohmann::json file_record(const SafetensorsStamp& stamp);
bool is_file_record(const nlohmann::json& record);

// `files` has one record per part, in part order.
nlohmann::json make_manifest(const Snapshot& snapshot, const std::string& weights_sha256,
                             const std::vector<nlohmann::json>& files);
// The exact text of the file: a manifest file with any other text is damaged.
std::string manifest_text(const nlohmann::json& manifest);

// Reads and verifies a manifest. Throws Error(kBadInput) with the file and the flaw.
nlohmann::json read_manifest(const std::filesystem::path& path);

// Compares a file with the manifest's record. Throws Error(kBadInput) with the first tensor that is cut off,
// or with the damaged tensors.
void verify_file(const nlohmann::json& manifest, const MappedFile& file);

// Adds a JSON object's own checksum under the key xxh3, and verifies it.
nlohmann::json sealed(nlohmann::json object);
bool is_sealed(const nlohmann::json& object);

}  // namespace distbelief::checkpoint
