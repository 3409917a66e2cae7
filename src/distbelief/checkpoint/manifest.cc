#include "distbelief/checkpoint/manifest.h"

#include <fmt/format.h>

#include <string>

#include "distbelief/base/error.h"
#include "distbelief/base/hash.h"

namespace distbelief::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;

[[noreturn]] void damaged(const std::filesystem::path& path, const std::string& what) {
  throw Error(ErrorCode::kBadInput,
              fmt::format("{} is damaged: {}; use an older checkpoint", path.string(), what));
}

std::string checksum_text(std::uint64_t checksum) { return fmt::format("{:016x}", checksum); }

// Over the canonical text (sorted keys, no spaces), so that only the content counts.
std::string own_checksum(Json manifest) {
  manifest.erase("xxh3");
  const std::string text = manifest.dump();
  return checksum_text(xxh3(text.data(), text.size()));
}

void check_format(const std::filesystem::path& path, const Json& manifest) {
  const Json format = manifest.value("format", Json());
  if (!format.is_number_integer()) damaged(path, "it has no format number");
  if (format != kFormat) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} has format {}, this program reads format {}: use the version "
                            "that wrote it",
                            path.string(), format.dump(), kFormat));
  }
}

// A manifest that carries its own checksum was written by make_manifest, but its types are still checked:
// the checksum is no seal.
void check_keys(const std::filesystem::path& path, const Json& manifest) {
  const Json files = manifest.value("files", Json());
  const Json file = files.is_object() ? files.value(std::string(kStateName), Json()) : Json();
  const bool complete =
      manifest.value("progress", Json()).is_object() && manifest.value("step", Json()).is_number() &&
      manifest.value("weights_sha256", Json()).is_string() && file.is_object() &&
      file.value("bytes", Json()).is_number_unsigned() && file.value("xxh3", Json()).is_string();
  if (!complete) damaged(path, "a key is missing or of the wrong type");
}

}  // namespace

Json make_manifest(const Snapshot& snapshot, const FileStamp& state) {
  Json manifest;
  manifest["format"] = kFormat;
  manifest["step"] = snapshot.step;
  manifest["progress"] = snapshot.progress;
  manifest["weights_sha256"] = snapshot.weights_sha256;
  manifest["files"][std::string(kStateName)] = {{"bytes", state.bytes}, {"xxh3", checksum_text(state.xxh3)}};
  manifest["xxh3"] = own_checksum(manifest);
  return manifest;
}

Json read_manifest(const std::filesystem::path& path) {
  const MappedFile file(path);
  const char* text = reinterpret_cast<const char*>(file.bytes().data());
  const Json manifest = Json::parse(text, text + file.bytes().size(), nullptr, false);
  if (!manifest.is_object()) damaged(path, "it is not a JSON object");
  check_format(path, manifest);
  if (manifest.value("xxh3", Json()) != own_checksum(manifest)) damaged(path, "its checksum does not match");
  check_keys(path, manifest);
  return manifest;
}

void verify_file(const Json& manifest, const MappedFile& file) {
  const Json& wanted = manifest.at("files").at(file.path().filename().string());
  const auto bytes = wanted.at("bytes").get<std::uint64_t>();
  if (file.bytes().size() != bytes) {
    damaged(file.path(), fmt::format("it has {} bytes, {} were written", file.bytes().size(), bytes));
  }
  const std::string checksum = checksum_text(xxh3(file.bytes().data(), file.bytes().size()));
  if (wanted.at("xxh3") != checksum) {
    damaged(file.path(), fmt::format("its checksum is {}, {} was written", checksum,
                                     wanted.at("xxh3").get<std::string>()));
  }
}

}  // namespace distbelief::checkpoint
