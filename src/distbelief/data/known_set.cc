#include "distbelief/data/known_set.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "distbelief/base/durable_file.h"
#include "distbelief/base/error.h"
#include "distbelief/base/hash.h"
#include "distbelief/base/json_text.h"

namespace distbelief::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKnownFormat = "distbelief data 1";

[[noreturn]] void refuse_known(const std::string& name, const std::string& reason) {
  throw Error(ErrorCode::kBadInput,
              fmt::format("'{}': {}; remove the file, and the data that was trained on is read instead", name,
                          reason));
}

std::string checksum_of(const std::string& text) {
  return fmt::format("{:016x}", xxh3(text.data(), text.size()));
}

nlohmann::json body_of(const KnownSet& known) {
  nlohmann::json set = {
      {"name", known.name}, {"spec", to_json(known.spec)}, {"fingerprints", known.fingerprints}};
  if (known.learnt) set["learnt"] = to_json(*known.learnt);
  if (known.held_out_of > 0) set["held_out_of"] = known.held_out_of;
  return set;
}

KnownSet known_from(const nlohmann::json& set) {
  KnownSet known{.name = set.at("name").get<std::string>(), .spec = spec_from_json(set.at("spec"))};
  known.fingerprints = set.at("fingerprints").get<std::vector<std::string>>();
  known.held_out_of = set.value("held_out_of", std::uint64_t{0});
  if (known.fingerprints.empty()) throw Error(ErrorCode::kBadInput, "it does not say of which files it is");
  if (set.contains("learnt"))
    known.learnt = std::make_shared<const Learnt>(learnt_from_json(set.at("learnt"), known.spec));
  return known;
}

template <typename Parse>
KnownSet parsed_known(const std::string& name, const Parse& parse) try {
  return parse();
} catch (const Error& error) {
  refuse_known(name, error.message());
} catch (const nlohmann::json::exception& error) {
  refuse_known(name, fmt::format("this does not say what a run knows of its data ({})", error.what()));
}

}  // namespace

void require_same_split(const KnownSet& known, const DataSet& now) {
  if (known.held_out_of == 0 || now.held_out_of == 0 || known.held_out_of == now.held_out_of) return;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("the data has {} samples now and had {} when the run began, so other samples would be held "
                  "out for testing, most of which were trained on; mend or replace files instead of removing "
                  "or adding some, or keep those to test on in a part of their own and begin a new run",
                  now.held_out_of, known.held_out_of));
}

std::string to_text(const KnownSet& known) {
  const nlohmann::json set = body_of(known);
  return nlohmann::json{{"format", kKnownFormat}, {"xxh3", checksum_of(set.dump())}, {"set", set}}.dump() +
         "\n";
}

KnownSet parse_known_set(std::string_view text, const std::string& name) {
  return parsed_known(name, [&] {
    const nlohmann::json all = parse_json(text, "it");
    if (all.at("format").get<std::string>() != kKnownFormat)
      throw Error(ErrorCode::kBadInput, fmt::format("its format is not '{}'", kKnownFormat));
    const nlohmann::json& set = all.at("set");
    if (all.at("xxh3").get<std::string>() != checksum_of(set.dump()))
      throw Error(ErrorCode::kBadInput, "its checksum is wrong: something in it was changed");
    return known_from(set);
  });
}

KnownSet parse_known_body(std::string_view text, const std::string& name) {
  return parsed_known(name, [&] { return known_from(parse_json(text, "it")); });
}

bool write_known_set(const fs::path& folder, const KnownSet& known) {
  const std::string text = to_text(known);
  if (text.size() > kMostJsonFileBytes) return false;
  write_durably(folder / kKnownSetName, text);
  return true;
}

std::optional<KnownSet> read_known_set(const fs::path& folder) {
  const fs::path path = folder / kKnownSetName;
  std::error_code failure;
  if (!fs::exists(path, failure)) return std::nullopt;
  const std::uint64_t bytes = fs::file_size(path, failure);
  std::ifstream file(path, std::ios::binary);
  if (failure || !file) throw Error(ErrorCode::kUnavailable, fmt::format("cannot read '{}'", path.string()));
  if (bytes > kMostJsonFileBytes)
    refuse_known(path.string(),
                 fmt::format("it has {} bytes, {} at most are read", bytes, kMostJsonFileBytes));
  std::string text(bytes, '\0');
  file.read(text.data(), std::streamsize(bytes));
  text.resize(std::size_t(file.gcount()));
  return parse_known_set(text, path.string());
}

}  // namespace distbelief::data
