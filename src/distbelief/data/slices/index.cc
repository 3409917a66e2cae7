#include "distbelief/data/slices/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "distbelief/base/error.h"
#include "distbelief/base/hash.h"
#include "distbelief/base/json_text.h"
#include "distbelief/data/slices/slice.h"

namespace distbelief::data {
namespace {

using nlohmann::json;

constexpr std::string_view kIndexFormat = "distbelief packed slices 1";
constexpr std::int64_t kMostDimensions = 8;
constexpr int kMostDepth = 8;  // json::dump() calls itself

[[noreturn]] void refuse_index(const std::string& name, const std::string& reason) {
  throw Error(ErrorCode::kBadInput, fmt::format("'{}': {}; fetch or pack the set again", name, reason));
}

std::string hex_of(std::uint64_t value) { return fmt::format("{:016x}", value); }

// What is no whole number from 0 on would be converted without a word.
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

json spec_json(const SampleSpec& spec) {
  json text = {{"input_type", to_string(spec.input_type)},
               {"input_shape", spec.input_shape},
               {"target_type", to_string(spec.target_type)},
               {"target_shape", spec.target_shape},
               {"classes", spec.classes},
               {"mean", spec.mean},
               {"deviation", spec.deviation}};
  if (!spec.class_names.empty()) text["class_names"] = spec.class_names;
  if (spec.target_unit != 1) text["target_unit"] = spec.target_unit;
  if (spec.target_mean != 0) text["target_mean"] = spec.target_mean;
  if (spec.table_features) text["table_features"] = true;
  if (spec.input_tokens > 0) text["input_tokens"] = spec.input_tokens;
  if (spec.target_share > 0) text["target_share"] = spec.target_share;
  return text;
}

ElementType type_of(const std::string& name, const std::string& word) {
  for (const ElementType type :
       {ElementType::kUint8, ElementType::kInt64, ElementType::kFloat32, ElementType::kFloat64})
    if (to_string(type) == word) return type;
  refuse_index(name, fmt::format("there are no elements of type '{}'", word));
}

Shape shape_from(const std::string& name, const json& from) {
  const std::vector<std::uint64_t> numbers = numbers_in(from);
  const Shape shape(numbers.begin(), numbers.end());
  std::int64_t count = 1;
  bool sound = std::int64_t(shape.size()) <= kMostDimensions;
  for (const std::int64_t dimension : shape) {
    sound = sound && dimension > 0 && dimension <= std::int64_t(kMostSliceBytes) / count;
    if (!sound) break;
    count *= dimension;
  }
  if (!sound) refuse_index(name, fmt::format("samples cannot have shape {}", to_string(shape)));
  return shape;
}

SampleSpec spec_from(const std::string& name, const json& from) {
  SampleSpec spec;
  spec.input_type = type_of(name, from.at("input_type").get<std::string>());
  spec.input_shape = shape_from(name, from.at("input_shape"));
  spec.target_type = type_of(name, from.at("target_type").get<std::string>());
  spec.target_shape = shape_from(name, from.at("target_shape"));
  spec.classes = static_cast<std::int64_t>(number_in(from.at("classes")));
  spec.mean = from.at("mean").get<std::vector<float>>();
  spec.deviation = from.at("deviation").get<std::vector<float>>();
  if (spec.classes < 0 || spec.classes > kMostClasses)
    refuse_index(name, fmt::format("there cannot be {} classes, {} at most", spec.classes, kMostClasses));
  if (from.contains("input_tokens"))
    spec.input_tokens = static_cast<std::int64_t>(number_in(from.at("input_tokens")));
  spec.target_share = from.value("target_share", 0.0);
  // Only who predicts a token for each token looks for targets that are none.
  const bool tokens = spec.input_type == ElementType::kInt64 && spec.target_type == ElementType::kInt64 &&
                      spec.input_shape == spec.target_shape;
  if (spec.input_tokens < 0 || spec.input_tokens > kMostClasses || !(spec.target_share >= 0) ||
      spec.target_share > (tokens ? 1 : 0))
    refuse_index(name, fmt::format("samples cannot have {} input tokens and a share of {} of their targets",
                                   spec.input_tokens, spec.target_share));
  spec.target_unit = from.value("target_unit", 1.0);
  if (!(spec.target_unit > 0))
    refuse_index(name, fmt::format("values cannot have a unit of {}", spec.target_unit));
  spec.target_mean = from.value("target_mean", 0.0);
  spec.table_features = from.value("table_features", false);
  spec.class_names = from.value("class_names", std::vector<std::string>{});
  if (!spec.class_names.empty() && std::int64_t(spec.class_names.size()) != spec.classes)
    refuse_index(name, fmt::format("{} classes cannot have {} names", spec.classes, spec.class_names.size()));
  return spec;
}

// A name in the same folder and nothing else.
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

// Slices follow one another without holes, in samples and in bytes; a file ends where the next begins.
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
    // Whoever reads a slice takes memory for it first.
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
  index.spec = spec_from(name, from.at("spec"));
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
} catch (const std::logic_error&) {  // number_in, stoull
  refuse_index(name, "something in it is not the number that it should be");
}

}  // namespace

std::string to_text(const SliceIndex& index) {
  const json set = {{"origin", index.origin},
                    {"spec", spec_json(index.spec)},
                    {"slice_samples", index.slice_samples},
                    {"train", part_json(index.train)},
                    {"test", part_json(index.test)}};
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
