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

// A file of one tensor of twelve numbers, and of what its metadata say it is a piece.
std::string piece_file(const char* name, std::string_view described) {
  const std::vector<float> values(12, 1);
  const checkpoint::TensorView view{
      .name = name, .shape = {12}, .data = reinterpret_cast<const std::byte*>(values.data())};
  const checkpoint::EncodedHeader header =
      checkpoint::encode_header(std::span(&view, 1), {{"pieces", std::string(described)}});
  return header.bytes + std::string(reinterpret_cast<const char*>(values.data()), header.data_bytes);
}

}  // namespace

// Its checksum is put right first, or nothing behind it would ever be reached. The file that it tells of
// comes after a byte 0.
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

// What two files say of their tensors, with a byte 0 between.
void pieces(std::span<const std::uint8_t> input) {
  const Halves parts = halves(input);
  parse_or_refuse([&] {
    const MemoryFile first(bytes_of(piece_file("w[0:2]", text_of(parts.first))));
    const MemoryFile second(bytes_of(piece_file("w[2:4]", text_of(parts.second))));
    std::vector<checkpoint::SafetensorsFile> files;
    for (const MemoryFile* file : {&first, &second}) files.emplace_back(std::filesystem::path(file->path()));
    checkpoint::sha256_by_name(checkpoint::join_pieces("checkpoint", files));  // every element
  });
}

}  // namespace distbelief::fuzz
