#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "distbelief/base/json_text.h"
#include "distbelief/checkpoint/manifest.h"
#include "distbelief/checkpoint/pieces.h"
#include "distbelief/checkpoint/safetensors_header.h"
#include "memory_file.h"
#include "targets.h"

namespace distbelief::fuzz {
namespace {

// A file with one tensor of twelve numbers, and its piece description in the metadata.
std::string piece_file(const char* name, std::string_view described) {
  const std::vector<float> values(12, 1);
  const checkpoint::TensorView view{
      .name = name, .shape = {12}, .data = reinterpret_cast<const std::byte*>(values.data())};
  const checkpoint::EncodedHeader header =
      checkpoint::encode_header(std::span(&view, 1), {{"pieces", std::string(described)}});
  return header.bytes + std::string(reinterpret_cast<const char*>(values.data()), header.data_bytes);
}

}  // namespace

// Corrects the checksum first; otherwise no code behind it would be reached. The file that the manifest
// describes follows after a zero byte.
void manifest(std::span<const std::uint8_t> input) {
  const Halves parts = halves(input);
  std::string text(text_of(parts.first));
  const nlohmann::json object = json_or_discarded(text);
  if (object.is_object()) text = checkpoint::manifest_text(checkpoint::sealed(object));
  parse_or_refuse([&] {
    const MemoryFile file(bytes_of(text)), state(parts.second);
    nlohmann::json found = checkpoint::read_manifest(file.path());
    const std::string name = std::filesystem::path(state.path()).filename().string();
    const nlohmann::json record = found.at("files").front();
    found["files"] = {{name, record}};
    checkpoint::verify_file(found, checkpoint::MappedFile(state.path()));
  });
}

// The tensor descriptions of two files, separated by a zero byte.
void pieces(std::span<const std::uint8_t> input) {
  const Halves parts = halves(input);
  parse_or_refuse([&] {
    const MemoryFile first(bytes_of(piece_file("w[0:2]", text_of(parts.first))));
    const MemoryFile second(bytes_of(piece_file("w[2:4]", text_of(parts.second))));
    std::vector<checkpoint::SafetensorsFile> files;
    for (const MemoryFile* file : {&first, &second}) files.emplace_back(std::filesystem::path(file->path()));
    checkpoint::sha256_by_name(checkpoint::join_pieces("checkpoint", files));  // reads every element
  });
}

}  // namespace distbelief::fuzz
