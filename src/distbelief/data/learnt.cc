#include "distbelief/data/learnt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "distbelief/base/error.h"
#include "distbelief/base/hex.h"
#include "distbelief/base/json_text.h"
#include "distbelief/data/formats/table_source.h"
#include "distbelief/data/slices/index.h"
#include "distbelief/data/slices/slice.h"

namespace distbelief::data {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostSpecDimensions = 8;
constexpr std::size_t kMostLearntColumns = 1 << 16;
constexpr std::int64_t kMostKeptSide = 4096;

void require_sound(bool sound, const std::string& otherwise) {
  if (!sound) throw Error(ErrorCode::kBadInput, otherwise);
}

// JSON holds only UTF-8; other bytes become {"hex": "c3"}.
json text_json(const std::string& text) {
  std::size_t at = 0;
  try {
    while (at < text.size()) next_character(text, at, {}, 0);
  } catch (const Error&) {
    return {{"hex", to_hex(text)}};
  }
  return text;
}
std::string text_from(const json& from) {
  return from.is_object() ? from_hex(from.at("hex").get<std::string>()) : from.get<std::string>();
}

json texts_json(const std::vector<std::string>& texts) {
  json all = json::array();
  for (const std::string& text : texts) all.push_back(text_json(text));
  return all;
}
std::vector<std::string> texts_from(const json& from) {
  require_sound(from.is_array(), "a list of words is wanted");
  std::vector<std::string> texts;
  for (const json& text : from) texts.push_back(text_from(text));
  return texts;
}

// Binary search needs this order.
bool is_strictly_sorted(const std::vector<std::string>& words) {
  return std::adjacent_find(words.begin(), words.end(), std::greater_equal()) == words.end();
}

ElementType element_type_from(const json& from) {
  const auto word = from.get<std::string>();
  for (const ElementType type :
       {ElementType::kUint8, ElementType::kInt64, ElementType::kFloat32, ElementType::kFloat64})
    if (to_string(type) == word) return type;
  throw Error(ErrorCode::kBadInput, fmt::format("there are no elements of type '{}'", word));
}

Shape shape_from(const json& from) {
  Shape shape;
  bool sound = true;
  std::int64_t count = 1;
  for (const json& one : from) {
    shape.push_back(whole_number(one));
    sound = sound && std::int64_t(shape.size()) <= kMostSpecDimensions && shape.back() > 0 &&
            shape.back() <= std::int64_t(kMostSliceBytes) / count;
    if (!sound) break;
    count *= shape.back();
  }
  require_sound(sound, fmt::format("samples cannot have shape {}", to_string(shape)));
  return shape;
}

void require_tokens_and_shares(const SampleSpec& spec) {
  // Only models that predict a token per input token handle kNoTarget.
  const bool tokens = spec.input_type == ElementType::kInt64 && spec.target_type == ElementType::kInt64 &&
                      spec.input_shape == spec.target_shape;
  const bool sound = spec.input_tokens >= 0 && spec.input_tokens <= kMostClasses && spec.target_share >= 0 &&
                     spec.target_share <= (tokens ? 1 : 0);
  require_sound(sound, fmt::format("samples cannot have {} input tokens and a share of {} of their targets",
                                   spec.input_tokens, spec.target_share));
}

constexpr std::pair<ColumnRole, const char*> kRoles[] = {{ColumnRole::kIgnored, "ignored"},
                                                         {ColumnRole::kNumeric, "number"},
                                                         {ColumnRole::kCategory, "category"},
                                                         {ColumnRole::kTarget, "target"}};
constexpr std::pair<TableTask, const char*> kTasks[] = {{TableTask::kClassification, "classification"},
                                                        {TableTask::kRegression, "regression"}};
constexpr std::pair<TextLevel, const char*> kLevels[] = {{TextLevel::kBytes, "bytes"},
                                                         {TextLevel::kCharacters, "characters"},
                                                         {TextLevel::kSentences, "sentences"}};

template <typename Value, std::size_t kCount>
const char* word_for(const std::pair<Value, const char*> (&words)[kCount], Value value) {
  for (const auto& [each, word] : words)
    if (each == value) return word;
  return "";
}
template <typename Value, std::size_t kCount>
Value value_for(const std::pair<Value, const char*> (&words)[kCount], const json& from) {
  const auto found = from.get<std::string>();
  for (const auto& [value, word] : words)
    if (found == word) return value;
  throw Error(ErrorCode::kBadInput, fmt::format("'{}' is none of the words that may stand there", found));
}

json column_json(const TableColumn& column) {
  json text = {{"name", text_json(column.name)}, {"role", word_for(kRoles, column.role)}};
  if (column.mean != 0) text["mean"] = column.mean;
  if (column.deviation != 1) text["deviation"] = column.deviation;
  if (!column.categories.empty()) text["categories"] = texts_json(column.categories);
  if (column.has_missing) text["has_missing"] = true;
  return text;
}

TableColumn column_from(const json& from) {
  TableColumn column{.name = text_from(from.at("name")), .role = value_for(kRoles, from.at("role"))};
  column.mean = from.value("mean", 0.0);
  column.deviation = from.value("deviation", 1.0);
  if (from.contains("categories")) column.categories = texts_from(from.at("categories"));
  column.has_missing = from.value("has_missing", false);
  require_sound(std::isfinite(column.mean) && std::isfinite(column.deviation) && column.deviation > 0,
                "a mean or deviation of a column is none");
  // Numeric classes are sorted by number, so this compares them as a set.
  const std::set<std::string> different(column.categories.begin(), column.categories.end());
  const bool may_have = column.role == ColumnRole::kCategory || column.role == ColumnRole::kTarget;
  require_sound(different.size() == column.categories.size() && (may_have || different.empty()) &&
                    (column.role != ColumnRole::kCategory || is_strictly_sorted(column.categories)),
                "the categories of a column are not in order");
  return column;
}

json table_json(const TableSchema& schema) {
  json columns = json::array();
  for (const TableColumn& column : schema.columns) columns.push_back(column_json(column));
  return {{"delimiter", text_json(std::string(1, schema.delimiter))},
          {"decimal", std::string(1, schema.decimal)},
          {"header", schema.has_header},
          {"missing", texts_json(schema.missing)},
          {"task", word_for(kTasks, schema.task)},
          {"standardize_target", schema.standardize_target},
          {"columns", columns}};
}

// Derives features and inputs from the columns.
TableSchema table_from(const json& from, const SampleSpec& spec) {
  TableSchema schema;
  const std::string delimiter = text_from(from.at("delimiter"));
  require_sound(delimiter.size() == 1 && std::string_view("\"\r\n").find(delimiter) == std::string_view::npos,
                "the delimiter is none");
  schema.delimiter = delimiter[0];
  const std::string decimal = from.value("decimal", ".");
  require_sound((decimal == "." || decimal == ",") && decimal != delimiter,
                "the mark before decimals is none");
  schema.decimal = decimal[0];
  schema.has_header = from.at("header").get<bool>();
  schema.missing = texts_from(from.at("missing"));
  schema.task = value_for(kTasks, from.at("task"));
  schema.standardize_target = from.at("standardize_target").get<bool>();
  require_sound(from.at("columns").is_array() && from.at("columns").size() <= kMostLearntColumns,
                fmt::format("a table has at most {} columns", kMostLearntColumns));
  std::set<std::string> names;
  std::size_t targets = 0;
  for (const json& each : from.at("columns")) {
    TableColumn column = column_from(each);
    require_sound(!column.name.empty() && names.insert(column.name).second,
                  "names of columns must differ and not be empty");
    const std::size_t index = schema.columns.size();
    if (column.role == ColumnRole::kTarget) {
      schema.target = index;
      ++targets;
    } else if (column.role != ColumnRole::kIgnored) {
      schema.inputs.push_back(index);
    }
    schema.columns.push_back(std::move(column));
  }
  require_sound(targets == 1, "a table has one target");
  place_features(schema);
  require_same_samples(spec, table_spec(schema));
  return schema;
}

json vocabulary_json(const Vocabulary& vocabulary) {
  json text = {{"level", word_for(kLevels, vocabulary.level())}};
  if (vocabulary.level() == TextLevel::kCharacters) text["characters"] = vocabulary.characters();
  if (vocabulary.level() == TextLevel::kSentences) text["words"] = texts_json(vocabulary.words());
  return text;
}

Vocabulary vocabulary_from(const json& from, const SampleSpec& spec) {
  const TextLevel level = value_for(kLevels, from.at("level"));
  std::vector<std::string> words;
  if (level == TextLevel::kSentences) words = texts_from(from.at("words"));
  require_sound(is_strictly_sorted(words), "the words are not in order");
  const auto found =
      level == TextLevel::kSentences
          ? Vocabulary(std::move(words))
          : Vocabulary(level, level == TextLevel::kCharacters ? from.at("characters").get<std::string>() : "",
                       "characters", 0);
  require_sound(has_tokens(spec) && spec.classes == std::int64_t(found.size()),
                fmt::format("a vocabulary of {} tokens is not that of the samples", found.size()));
  return found;
}

// The names in the order of their numbers, which begin at 1.
json trees_json(const TreeTokens& tokens) {
  std::vector<std::string> names(tokens.size());
  for (const auto& [name, number] : tokens) names[std::size_t(number) - 1] = name;
  return texts_json(names);
}

TreeTokens trees_from(const json& from, const SampleSpec& spec) {
  TreeTokens tokens;
  for (const std::string& name : texts_from(from)) {
    const auto number = std::int64_t(tokens.size()) + 1;
    require_sound(tokens.emplace(name, number).second, "names of nodes must differ");
  }
  require_sound(has_trees(spec) && !tokens.empty() && spec.input_tokens == tokens_for(tokens),
                fmt::format("{} names of nodes are not those of the samples", tokens.size()));
  return tokens;
}

ImageSettings images_from(const json& from, const SampleSpec& spec) {
  const auto side = [&from](const char* key, std::int64_t least) {
    return std::uint32_t(whole_number(from.at(key), least, kMostKeptSide));
  };
  ImageSettings settings;
  settings.size = {.resize = side("resize", 0), .crop = side("crop", 1)};
  settings.channels = side("channels", 1);
  require_sound(settings.size.resize == 0 || settings.size.resize >= settings.size.crop,
                "images cannot be cropped to more than they are resized to");
  require_sound(spec.input_type == ElementType::kUint8 &&
                    (settings.channels == 1 || settings.channels == 3) &&
                    image_spec(settings, spec.classes).input_shape == spec.input_shape,
                "images are resized to another shape than that of the samples");
  return settings;
}

}  // namespace

void require_same_samples(const SampleSpec& known, const SampleSpec& found) {
  const auto differ = [](const char* what, const auto& before, const auto& now) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} are wanted to be {}, as they were, and are {}", what, before, now));
  };
  if (known.input_type != found.input_type || known.input_shape != found.input_shape)
    differ("samples", fmt::format("{} {}", to_string(known.input_type), to_string(known.input_shape)),
           fmt::format("{} {}", to_string(found.input_type), to_string(found.input_shape)));
  if (known.target_type != found.target_type || known.target_shape != found.target_shape)
    differ("targets", fmt::format("{} {}", to_string(known.target_type), to_string(known.target_shape)),
           fmt::format("{} {}", to_string(found.target_type), to_string(found.target_shape)));
  if (known.classes != found.classes) differ("classes", known.classes, found.classes);
  for (std::size_t i = 0; i < std::min(known.class_names.size(), found.class_names.size()); ++i)
    if (known.class_names[i] != found.class_names[i])
      differ("names of classes", known.class_names[i], found.class_names[i]);
  if (known.input_tokens != found.input_tokens)
    differ("input tokens", known.input_tokens, found.input_tokens);
}

json to_json(const SampleSpec& spec) {
  json text = {{"input_type", to_string(spec.input_type)},
               {"input_shape", spec.input_shape},
               {"target_type", to_string(spec.target_type)},
               {"target_shape", spec.target_shape},
               {"classes", spec.classes},
               {"mean", spec.mean},
               {"deviation", spec.deviation}};
  if (!spec.class_names.empty()) text["class_names"] = texts_json(spec.class_names);
  if (spec.target_unit != 1) text["target_unit"] = spec.target_unit;
  if (spec.target_mean != 0) text["target_mean"] = spec.target_mean;
  if (spec.table_features) text["table_features"] = true;
  if (spec.input_tokens > 0) text["input_tokens"] = spec.input_tokens;
  if (spec.target_share > 0) text["target_share"] = spec.target_share;
  return text;
}

SampleSpec spec_from_json(const json& from) {
  SampleSpec spec;
  spec.input_type = element_type_from(from.at("input_type"));
  spec.input_shape = shape_from(from.at("input_shape"));
  spec.target_type = element_type_from(from.at("target_type"));
  spec.target_shape = shape_from(from.at("target_shape"));
  spec.classes = whole_number(from.at("classes"));
  spec.mean = from.at("mean").get<std::vector<float>>();
  spec.deviation = from.at("deviation").get<std::vector<float>>();
  require_sound(spec.classes >= 0 && spec.classes <= kMostClasses,
                fmt::format("there cannot be {} classes, {} at most", spec.classes, kMostClasses));
  if (from.contains("input_tokens")) spec.input_tokens = whole_number(from.at("input_tokens"));
  spec.target_share = from.value("target_share", 0.0);
  require_tokens_and_shares(spec);
  spec.target_unit = from.value("target_unit", 1.0);
  require_sound(spec.target_unit > 0, fmt::format("values cannot have a unit of {}", spec.target_unit));
  spec.target_mean = from.value("target_mean", 0.0);
  spec.table_features = from.value("table_features", false);
  if (from.contains("class_names")) spec.class_names = texts_from(from.at("class_names"));
  require_sound(spec.class_names.empty() || std::int64_t(spec.class_names.size()) == spec.classes,
                fmt::format("{} classes cannot have {} names", spec.classes, spec.class_names.size()));
  return spec;
}

json to_json(const Learnt& learnt) {
  json text = json::object();
  if (learnt.table) text["table"] = table_json(*learnt.table);
  if (learnt.vocabulary) text["vocabulary"] = vocabulary_json(*learnt.vocabulary);
  if (!learnt.tree_tokens.empty()) text["tree_names"] = trees_json(learnt.tree_tokens);
  if (learnt.images)
    text["images"] = {{"resize", learnt.images->size.resize},
                      {"crop", learnt.images->size.crop},
                      {"channels", learnt.images->channels}};
  return text;
}

Learnt learnt_from_json(const json& from, const SampleSpec& spec) {
  require_sound(from.is_object(), "what was learnt is no object");
  Learnt learnt;
  if (from.contains("table")) learnt.table = table_from(from.at("table"), spec);
  if (from.contains("vocabulary")) learnt.vocabulary = vocabulary_from(from.at("vocabulary"), spec);
  if (from.contains("tree_names")) learnt.tree_tokens = trees_from(from.at("tree_names"), spec);
  if (from.contains("images")) learnt.images = images_from(from.at("images"), spec);
  return learnt;
}

}  // namespace distbelief::data
