#include "distbelief/checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "distbelief/base/error.h"
#include "distbelief/base/hash.h"
#include "distbelief/base/json_text.h"
#include "distbelief/checkpoint/safetensors_header.h"

namespace distbelief::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr int kOldestFormat = 1;  // has no checksums of header and tensors
constexpr int kFormatOfOneFile = 2;
constexpr int kFormatOfSeveralFiles = 3;

constexpr std::string_view kStateKind = "state";
constexpr std::string_view kStateEnding = ".safetensors";

[[noreturn]] void damaged(const std::filesystem::path& path, const std::string& what) {
  throw Error(ErrorCode::kBadInput,
              fmt::format("{} is damaged: {}; use an older checkpoint", path.string(), what));
}

std::string checksum_text(std::uint64_t checksum) { return fmt::format("{:016x}", checksum); }

// Checksum of the canonical text (sorted keys, no spaces).
std::string own_checksum(Json object) {
  object.erase("xxh3");
  const std::string text = object.dump();
  return checksum_text(xxh3(text.data(), text.size()));
}

void check_format(const std::filesystem::path& path, const Json& manifest) {
  const Json format = manifest.value("format", Json());
  if (!format.is_number_integer()) damaged(path, "it has no format number");
  if (format < kOldestFormat || format > kFormatOfSeveralFiles) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} has format {}, this program reads formats {} to {}: use the version "
                            "that wrote it",
                            path.string(), format.dump(), kOldestFormat, kFormatOfSeveralFiles));
  }
}

bool is_stamp(const Json& stamp) {
  return stamp.is_object() && stamp.value("bytes", Json()).is_number_unsigned() &&
         stamp.value("xxh3", Json()).is_string();
}

// Whether `files` has exactly the expected files.
bool are_files(const Json& files, int format) {
  if (!files.is_object() || files.empty()) return false;
  const int parts = static_cast<int>(files.size());
  if ((parts > 1) != (format == kFormatOfSeveralFiles)) return false;
  for (int part = 0; part < parts; ++part) {
    const Json file = files.value(state_name(part, parts), Json());
    const bool sound =
        format == kOldestFormat ? is_stamp(file) && !file.contains("header") : is_file_record(file);
    if (!sound) return false;
  }
  return true;
}

// Types are checked even though make_manifest wrote the checksum: it does not protect against tampering.
void check_keys(const std::filesystem::path& path, const Json& manifest) {
  const int format = manifest.at("format").get<int>();
  const bool complete = manifest.value("progress", Json()).is_object() &&
                        manifest.value("step", Json()).is_number() &&
                        manifest.value("weights_sha256", Json()).is_string() &&
                        are_files(manifest.value("files", Json()), format) &&
                        (format != kFormatOfSeveralFiles || manifest.value("attempt", Json()).is_string());
  if (!complete) damaged(path, "a key is missing or of the wrong type");
}

// A part of the file as the manifest describes it.
struct Part {
  std::string text;  // name in messages
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::string xxh3;

  bool fits(std::uint64_t size) const { return offset <= size && bytes <= size - offset; }
};

Part make_part(const std::string& text, std::uint64_t offset, const Json& stamp) {
  const auto bytes = stamp.at("bytes").get<std::uint64_t>();
  return {.text = fmt::format("{} (offset {}, {} bytes)", text, offset, bytes),
          .offset = offset,
          .bytes = bytes,
          .xxh3 = stamp.at("xxh3").get<std::string>()};
}

std::vector<Part> parts_of(const Json& file) {
  std::vector<Part> parts;
  if (!file.contains("header")) return parts;
  parts.push_back(make_part("its header", 0, file.at("header")));
  for (const auto& item : file.at("tensors").items()) {
    parts.push_back(make_part(fmt::format("tensor '{}'", item.key()),
                              item.value().at("offset").get<std::uint64_t>(), item.value()));
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.offset < b.offset; });
  return parts;
}

void verify_size(const Json& wanted, const std::vector<Part>& parts, const MappedFile& file) {
  const std::uint64_t size = file.bytes().size();
  const auto cut =
      std::find_if(parts.begin(), parts.end(), [&](const Part& part) { return !part.fits(size); });
  const auto bytes = wanted.at("bytes").get<std::uint64_t>();
  if (size == bytes && cut == parts.end()) return;
  damaged(file.path(), fmt::format("it has {} bytes, {} were written{}", size, bytes,
                                   cut == parts.end() ? "" : fmt::format("; {} is cut off", cut->text)));
}

void verify_parts(const std::vector<Part>& parts, const MappedFile& file) {
  std::vector<const Part*> wrong;
  for (const Part& part : parts) {
    if (checksum_text(xxh3(file.bytes().data() + part.offset, part.bytes)) != part.xxh3)
      wrong.push_back(&part);
  }
  if (wrong.empty()) return;
  const std::string others =
      wrong.size() == 1 ? "" : fmt::format(" (and that of {} other parts)", wrong.size() - 1);
  damaged(file.path(),
          fmt::format("the checksum of {}{} is not the one that was written", wrong.front()->text, others));
}

void verify_whole(const Json& wanted, const MappedFile& file) {
  const std::string checksum = checksum_text(xxh3(file.bytes().data(), file.bytes().size()));
  if (wanted.at("xxh3") == checksum) return;
  damaged(file.path(),
          fmt::format("its checksum is {}, {} was written", checksum, wanted.at("xxh3").get<std::string>()));
}

}  // namespace

Json sealed(Json object) {
  object["xxh3"] = own_checksum(object);
  return object;
}

bool is_sealed(const Json& object) { return object.value("xxh3", Json()) == own_checksum(object); }

std::string part_name(std::string_view kind, int part, int parts) {
  return fmt::format("{}-{:05}-of-{:05}", kind, part + 1, parts);
}

std::string state_name(int part, int parts) {
  return (parts == 1 ? std::string(kStateKind) : part_name(kStateKind, part, parts)) +
         std::string(kStateEnding);
}

bool is_state_name(const std::string& name) {
  return name == state_name(0, 1) ||
         (name.starts_with(std::string(kStateKind) + "-") && name.ends_with(kStateEnding));
}

Json file_record(const SafetensorsStamp& stamp) {
  Json file{{"bytes", stamp.bytes}, {"xxh3", checksum_text(stamp.xxh3)}, {"tensors", Json::object()}};
  file["header"] = {{"bytes", stamp.header.bytes}, {"xxh3", checksum_text(stamp.header.xxh3)}};
  for (const PartStamp& part : stamp.tensors) {
    file["tensors"][part.name] = {
        {"offset", part.offset}, {"bytes", part.bytes}, {"xxh3", checksum_text(part.xxh3)}};
  }
  return file;
}

bool is_file_record(const Json& record) {
  if (!is_stamp(record)) return false;
  const Json tensors = record.value("tensors", Json());
  const auto is_part = [](const Json& tensor) {
    return is_stamp(tensor) && tensor.value("offset", Json()).is_number_unsigned();
  };
  return is_stamp(record.value("header", Json())) && tensors.is_object() &&
         std::all_of(tensors.begin(), tensors.end(), is_part);
}

Json make_manifest(const Snapshot& snapshot, const std::string& weights_sha256,
                   const std::vector<Json>& files) {
  Json manifest;
  manifest["format"] = files.size() == 1 ? kFormatOfOneFile : kFormatOfSeveralFiles;
  manifest["step"] = snapshot.step;
  manifest["progress"] = snapshot.progress;
  manifest["weights_sha256"] = weights_sha256;
  if (files.size() > 1) manifest["attempt"] = snapshot.attempt;
  const int parts = static_cast<int>(files.size());
  for (int part = 0; part < parts; ++part)
    manifest["files"][state_name(part, parts)] = files[static_cast<std::size_t>(part)];
  return sealed(std::move(manifest));
}

std::string manifest_text(const Json& manifest) { return manifest.dump(2) + "\n"; }

Json read_manifest(const std::filesystem::path& path) {
  const MappedFile file(path);
  if (file.bytes().size() > kMaxHeaderBytes)
    damaged(path, fmt::format("it has {} bytes, at most {} are taken", file.bytes().size(), kMaxHeaderBytes));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  const Json manifest = json_or_discarded(text);
  if (!manifest.is_object()) damaged(path, "it is not a JSON object");
  check_format(path, manifest);
  if (!is_sealed(manifest)) damaged(path, "its checksum does not match");
  // Detects changes between the values, which the checksum does not cover.
  if (text != manifest_text(manifest)) damaged(path, "it was changed after it was written");
  check_keys(path, manifest);
  return manifest;
}

void verify_file(const Json& manifest, const MappedFile& file) {
  const std::string name = file.path().filename().string();
  if (!manifest.at("files").contains(name)) damaged(file.path(), "the manifest does not know it");
  const Json& wanted = manifest.at("files").at(name);
  const std::vector<Part> parts = parts_of(wanted);
  verify_size(wanted, parts, file);
  parts.empty() ? verify_whole(wanted, file) : verify_parts(parts, file);
}

}  // namespace distbelief::checkpoint
