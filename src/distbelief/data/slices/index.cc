#include "distbelief/data/slices/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "distbelief/base/error.h"
#include "distbelief/base/hash.h"
#include "distbelief/base/json_text.h"
#include "distbelief/data/learnt.h"
#include "distbelief/data/slices/slice.h"

namespace distbelief::data {
namespace {

using nlohmann::json;

constexpr std::string_view kIndexFormat = "distbelief packed slices 1";
constexpr int kMostDepth = 8;  // json::dump() is recursive

[[noreturn]] void refuse_index(const std::string& name, const std::string& reason) {
  throw Error(ErrorCode::kBadInput, fmt::format("'{}': {}; fetch or pack the set again", name, reason));
}

std::string hex_of(std::uint64_t value) { return fmt::format("{:016x}", value); }

// Checks the type first, because the conversion would silently accept other numbers.
std::uint64_t number_in(const json& from) {
  if (!from.is_number_unsigned()) throw std::invalid_argument("number");
  return from.get<std::uint64_t>();
}

std::vector<std::uint64_t> numbers_in(const json& from) {
  std::vector<std::uint64_t> numbers;
  for (const json& one : from) numbers.push_back(number_in(one));
  return numbers;
}

json part_json(const PartIndex& part) {
  json slices = json::array();
  for (const SliceEntry& slice : part.slices)
    slices.push_back({slice.first, slice.samples, slice.file, slice.offset, slice.bytes, slice.raw_bytes,
                      hex_of(slice.xxh3)});
  return {{"samples", part.samples}, {"files", part.files}, {"balance", part.balance}, {"slices", slices}};
}

// Adds the name of the index to errors.
template <typename Read>
auto read_of_index(const std::string& name, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    refuse_index(name, error.message());
  }
}

// Whether it is a plain file name in the same folder.
bool is_plain_name(const std::string& name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !name.empty() && name.size() < 256 && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), plain);
}

SliceEntry slice_from(const json& from) {
  return {.first = number_in(from.at(0)),
          .samples = number_in(from.at(1)),
          .file = number_in(from.at(2)),
          .offset = number_in(from.at(3)),
          .bytes = number_in(from.at(4)),
          .raw_bytes = number_in(from.at(5)),
          .xxh3 = std::stoull(from.at(6).get<std::string>(), nullptr, 16)};
}

// Whether the slice follows the previous one without a gap, in samples and in bytes; each file starts at byte
// 0.
bool follows(const SliceIndex& index, const PartIndex& part, std::size_t number) {
  const SliceEntry& slice = part.slices[number];
  const SliceEntry before = number > 0 ? part.slices[number - 1] : SliceEntry{};
  const bool new_file = number > 0 && slice.file == before.file + 1;
  const std::uint64_t offset = new_file ? 0 : before.offset + before.bytes;
  const std::uint64_t first = number * index.slice_samples;
  return slice.first == first && first < part.samples &&
         slice.samples == std::min(index.slice_samples, part.samples - first) &&
         (new_file || slice.file == before.file) && slice.file < part.files.size() &&
         slice.offset == offset && slice.bytes > kSliceHeaderBytes &&
         slice.raw_bytes == slice.samples * sample_bytes(index.spec).sum();
}

PartIndex part_from(const std::string& name, const SliceIndex& index, const json& from) {
  PartIndex part;
  part.samples = number_in(from.at("samples"));
  part.files = from.at("files").get<std::vector<std::string>>();
  part.balance = numbers_in(from.at("balance"));
  if (!part.balance.empty() && part.balance.size() != std::uint64_t(index.spec.classes))
    refuse_index(name, fmt::format("it counts the samples of {} classes, there are {}", part.balance.size(),
                                   index.spec.classes));
  for (const std::string& file : part.files)
    if (!is_plain_name(file)) refuse_index(name, fmt::format("'{}' is no name of a file of slices", file));
  for (const json& slice : from.at("slices")) part.slices.push_back(slice_from(slice));
  for (std::size_t i = 0; i < part.slices.size(); ++i) {
    if (!follows(index, part, i))
      refuse_index(name, fmt::format("slice {} is not where it must be after the one before it", i));
    // Checked here, because readers allocate this size first.
    if (const SliceEntry& slice = part.slices[i]; slice.bytes > most_slice_bytes(slice.raw_bytes))
      refuse_index(
          name, fmt::format("slice {} at byte {} of '{}' cannot have {} bytes, at most {}", i, slice.offset,
                            part.files[slice.file], slice.bytes, most_slice_bytes(slice.raw_bytes)));
  }
  if (part.slices.size() !=
      part.samples / index.slice_samples + (part.samples % index.slice_samples != 0 ? 1 : 0))
    refuse_index(name, fmt::format("{} slices of {} samples do not make {} samples", part.slices.size(),
                                   index.slice_samples, part.samples));
  return part;
}

SliceIndex index_from(const std::string& name, const json& from) {
  SliceIndex index;
  index.origin = from.at("origin").get<std::string>();
  index.spec = read_of_index(name, [&] { return spec_from_json(from.at("spec")); });
  if (from.contains("learnt"))
    index.learnt = std::make_shared<const Learnt>(
        read_of_index(name, [&] { return learnt_from_json(from.at("learnt"), index.spec); }));
  index.slice_samples = number_in(from.at("slice_samples"));
  const std::uint64_t each = sample_bytes(index.spec).sum();
  if (index.slice_samples == 0 || index.slice_samples > kMostSliceBytes / each)
    refuse_index(name, fmt::format("a slice cannot have {} samples of {} bytes", index.slice_samples, each));
  index.train = part_from(name, index, from.at("train"));
  index.test = part_from(name, index, from.at("test"));
  return index;
}

json parse_shallow(std::string_view text, const std::string& name) {
  if (const auto at = nests_deeper(text, kMostDepth))
    refuse_index(name, fmt::format("it is nested too deeply at byte {}", *at));
  return json::parse(text);
}

template <typename Parse>
SliceIndex parsed(const std::string& name, const Parse& parse) try {
  return parse();
} catch (const json::parse_error& error) {
  refuse_index(name, fmt::format("no JSON at byte {}", error.byte));
} catch (const json::exception& error) {
  refuse_index(name, fmt::format("this is not the index of a packed set ({})", error.what()));
} catch (const std::logic_error&) {  // from number_in and stoull
  refuse_index(name, "something in it is not the number that it should be");
}

}  // namespace

std::string to_text(const SliceIndex& index) {
  json set = {{"origin", index.origin},
              {"spec", to_json(index.spec)},
              {"slice_samples", index.slice_samples},
              {"train", part_json(index.train)},
              {"test", part_json(index.test)}};
  if (index.learnt) set["learnt"] = to_json(*index.learnt);
  const std::string text = set.dump();
  return json{{"format", kIndexFormat}, {"xxh3", hex_of(xxh3(text.data(), text.size()))}, {"set", set}}
             .dump() +
         "\n";
}

SliceIndex parse_slice_index(std::string_view text, const std::string& name) {
  return parsed(name, [&] {
    const json all = parse_shallow(text, name);
    if (all.at("format").get<std::string>() != kIndexFormat)
      refuse_index(name, fmt::format("its format is not '{}'", kIndexFormat));
    const json& set = all.at("set");
    const std::string body = set.dump();
    if (all.at("xxh3").get<std::string>() != hex_of(xxh3(body.data(), body.size())))
      refuse_index(name, "its checksum is wrong: something in it was changed");
    return index_from(name, set);
  });
}

SliceIndex parse_slice_set(std::string_view text, const std::string& name) {
  return parsed(name, [&] { return index_from(name, parse_shallow(text, name)); });
}

std::uint64_t packed_bytes(const PartIndex& part) {
  std::uint64_t bytes = 0;
  for (const SliceEntry& slice : part.slices) bytes += slice.bytes;
  return bytes;
}

}  // namespace distbelief::data
