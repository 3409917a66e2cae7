#include "distbelief/data/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "distbelief/base/error.h"
#include "distbelief/data/formats/cifar.h"
#include "distbelief/data/formats/idx.h"
#include "distbelief/data/formats/image_folder.h"
#include "distbelief/data/formats/s_expressions.h"
#include "distbelief/data/formats/table_field.h"
#include "distbelief/data/formats/table_source.h"
#include "distbelief/data/formats/text.h"
#include "distbelief/data/formats/vocabulary.h"
#include "distbelief/data/formats/webdataset.h"
#include "distbelief/data/io/memory_fault.h"
#include "distbelief/data/io/random_access_file.h"
#include "distbelief/data/slices/packed_source.h"

namespace distbelief::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kImagesLookedAt = 50;
constexpr std::int64_t kStarterResize = 72;  // affordable on a few cores; the usual values are 256 and 224
constexpr std::int64_t kStarterCrop = 64;
constexpr std::int64_t kStarterLength = 128;
constexpr std::uint64_t kRowsThatTell = 20;  // with fewer rows, distinct values may be chance

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool has_idx(const fs::path& folder) {
  const fs::path images = folder / "train-images-idx3-ubyte";
  return fs::exists(images) || fs::exists(images.string() + ".gz");
}

bool has_shards(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".tar") return true;
  return false;
}

// Chooses resize and crop from the shortest side seen.
void choose_sizes(std::int64_t shortest, Finding& finding) {
  finding.side = shortest >= kStarterResize ? kStarterCrop : shortest;
  finding.options["resize"] = shortest >= kStarterResize ? kStarterResize : shortest;
  finding.options["crop"] = finding.side;
}

Finding inspect_idx(const fs::path& folder) {
  const bool fashion = lower(folder.string()).find("fashion") != std::string::npos;
  const fs::path plain = folder / "train-images-idx3-ubyte";
  const IdxArray images = read_idx(fs::exists(plain) ? plain : fs::path(plain.string() + ".gz"), 3);
  Finding finding{.data_set = fashion ? "fashion_mnist" : "mnist"};
  finding.side = images.shape[1];
  finding.samples = static_cast<std::uint64_t>(images.shape[0]);
  finding.notes = {fmt::format("IDX files with {} grey images of {} x {} to train on", images.shape[0],
                               images.shape[1], images.shape[2])};
  return finding;
}

Finding inspect_cifar(const std::string& name) {
  Finding finding{.data_set = name};
  finding.side = 32;
  finding.samples = 50'000;
  finding.notes = {fmt::format("the binary version of {}", name)};
  return finding;
}

// The shortest side among `count` images. `read` stores the bytes of image i and returns its place for
// messages.
template <typename Read>
std::int64_t shortest_side(std::uint64_t count, Read read) {
  std::int64_t shortest = INT64_MAX;
  std::vector<std::uint8_t> bytes;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string place = read(i, bytes);
    try {
      const ImageSize size = thread_decoder().size(bytes);
      shortest = std::min<std::int64_t>(shortest, std::min(size.width, size.height));
    } catch (const ImageFault& fault) {
      throw Error(ErrorCode::kBadInput,
                  fmt::format("{}, byte {} of the image: {}", place, fault.offset(), fault.what()));
    }
  }
  return shortest;
}

Finding inspect_images(const fs::path& root) {
  const ImageParts parts = find_image_parts(root);
  const ImageList list(parts.train);
  const std::uint64_t count = std::min(list.size(), kImagesLookedAt);
  const std::int64_t shortest = shortest_side(count, [&](std::uint64_t i, std::vector<std::uint8_t>& bytes) {
    const fs::path path = list.path(i * list.size() / count);
    read_whole(path, kMostImageBytes, bytes);
    return fmt::format("'{}'", path.string());
  });
  Finding finding{.data_set = "image_folder"};
  finding.samples = list.size();
  finding.notes = {fmt::format("{} images of {} classes; of {} looked at the shortest side has {} pixels",
                               list.size(), list.classes().size(), count, shortest),
                   parts.test.empty() ? "no part to test on, so a tenth is held out"
                                      : fmt::format("images to test on in '{}'", parts.test.string())};
  choose_sizes(shortest, finding);
  return finding;
}

Finding inspect_shards(const fs::path& path) {
  const ImageParts parts = find_image_parts(path);
  const std::vector<fs::path> shards = find_shards(parts.train);
  const std::string json_key = likely_json_key(shards);
  const ShardIndex index = index_shards(shards, json_key);
  const std::uint64_t count = std::min<std::uint64_t>(index.samples.size(), kImagesLookedAt);
  const std::int64_t shortest = shortest_side(count, [&](std::uint64_t i, std::vector<std::uint8_t>& bytes) {
    const ShardSample& sample = index.samples[i * index.samples.size() / count];
    const RandomAccessFile file(index.shards[sample.shard]);
    bytes.resize(sample.bytes);
    file.read(sample.offset, bytes.data(), bytes.size());
    return file.at(sample.offset);
  });
  Finding finding{.data_set = "webdataset"};
  finding.samples = index.samples.size();
  finding.notes = {
      fmt::format("{} tar shards with {} images of {} classes; the shortest side seen has {} pixels",
                  index.shards.size(), index.samples.size(), index.classes, shortest)};
  if (parts.test.empty()) finding.notes.push_back("no part to test on, so a tenth is held out");
  if (json_key != option<std::string>(resolve_options("", webdataset_entry().options, {}), "json_key")) {
    finding.options["json_key"] = json_key;
    finding.notes.push_back(fmt::format("the class is called '{}' in .json files", json_key));
  }
  choose_sizes(shortest, finding);
  return finding;
}

// A column with a common target name, otherwise the last column.
std::size_t likely_target(const TableSurvey& survey) {
  for (const char* name : {"target", "label", "class", "y"})
    for (std::size_t i = 0; i < survey.columns.size(); ++i)
      if (lower(survey.columns[i].name) == name) return i;
  return survey.columns.size() - 1;
}

std::string csv_quoted(const std::string& name) {
  if (name.find_first_of(",\"") == std::string::npos) return name;
  std::string quoted = "\"";
  for (const char c : name) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

// Text with nearly one value per row: it cannot serve as a category.
bool is_free_text(const ColumnSurvey& column, std::uint64_t rows) {
  if (column.numeric) return false;
  const std::uint64_t there = rows - column.missing;
  return column.many || (there >= kRowsThatTell && column.values.size() * 4 >= there * 3);
}

// Lists free text and id columns.
std::string useless_columns(const TableSurvey& survey, std::size_t target) {
  std::string list;
  for (std::size_t i = 0; i < survey.columns.size(); ++i) {
    const ColumnSurvey& column = survey.columns[i];
    if (i != target && (is_free_text(column, survey.rows) || lower(column.name) == "id"))
      list += (list.empty() ? "" : ",") + csv_quoted(column.name);
  }
  return list;
}

bool is_number(std::string_view field, char decimal) {
  double ignored = 0;
  return parse_number(field, decimal, ignored);
}

std::vector<std::string> row_of(CsvReader& reader) {
  std::vector<std::string> fields;
  if (!reader.next()) return fields;
  for (std::size_t i = 0; i < reader.size(); ++i) fields.emplace_back(trimmed(reader[i]));
  return fields;
}

// Whether the first row cannot be column names: all fields are numbers, or a field occurs twice and does not
// head a column of numbers.
bool begins_with_a_sample(const fs::path& path, char decimal) {
  const auto is_a_number = [decimal](const std::string& field) { return is_number(field, decimal); };
  CsvReader reader(path, guess_delimiter(path));
  const std::vector<std::string> first = row_of(reader), second = row_of(reader);
  if (std::all_of(first.begin(), first.end(), is_a_number)) return true;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const bool twice = !first[i].empty() && std::count(first.begin(), first.end(), first[i]) > 1;
    if (twice && (is_a_number(first[i]) || (i < second.size() && !is_a_number(second[i])))) return true;
  }
  return false;
}

// Whether every column name looks like a value: a number above numbers, or a text that occurs again below it.
bool names_are_a_sample(const TableSurvey& survey, char decimal) {
  return std::all_of(survey.columns.begin(), survey.columns.end(), [decimal](const ColumnSurvey& column) {
    return column.numeric ? is_number(column.name, decimal)
                          : std::binary_search(column.values.begin(), column.values.end(), column.name);
  });
}

// Sets option "header": whether the table begins with column names.
TableSurvey survey_with_header(const fs::path& path, OptionMap& options) {
  const char decimal = option<std::string>(options, "decimal")[0];
  options["header"] = !begins_with_a_sample(path, decimal);
  TableSurvey survey = survey_table(path, options);
  if (!option<bool>(options, "header") || !names_are_a_sample(survey, decimal)) return survey;
  options["header"] = false;
  return survey_table(path, options);
}

// Also sets option "decimal".
TableSurvey survey_as_written(const fs::path& path, OptionMap& options) {
  TableSurvey survey = survey_with_header(path, options);
  for (const ColumnSurvey& column : survey.columns)
    if (has_other_decimal(column)) {
      options["decimal"] = std::string(",");
      return survey_with_header(path, options);
    }
  return survey;
}

// The job file, which is UTF-8, will contain these column names.
void require_utf8(const fs::path& path, const std::string& names) {
  try {
    for (std::size_t at = 0; at < names.size();) next_character(names, at, "", 0);
  } catch (const Error&) {
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("'{0}' has names of columns that are not UTF-8, which a job file cannot hold; convert "
                    "it: iconv -f LATIN1 -t UTF-8 '{0}' > utf8.csv",
                    path.string()));
  }
}

Finding inspect_table(const fs::path& path) {
  OptionMap options = resolve_options("data set 'csv'", table_options(), {});
  const TableSurvey survey = survey_as_written(path, options);
  Finding finding{.data_set = "csv"};
  if (option<std::string>(options, "decimal") != ".") finding.options["decimal"] = options["decimal"];
  if (!option<bool>(options, "header")) finding.options["header"] = false;
  finding.samples = survey.rows;
  const std::size_t target = likely_target(survey);
  options["target"] = csv_quoted(survey.columns[target].name);
  finding.options["target"] = options["target"];
  if (const std::string useless = useless_columns(survey, target); !useless.empty())
    finding.options["ignore"] = options["ignore"] = useless;
  for (const auto& [name, value] : finding.options)
    if (const auto* text = std::get_if<std::string>(&value)) require_utf8(path, *text);
  const TableSchema schema = decide_roles(survey, options);
  const bool values = schema.task == TableTask::kRegression;
  finding.kind = values ? FindingKind::kFeatureValues : FindingKind::kFeatureClasses;
  finding.options["task"] = std::string(values ? "regression" : "classification");
  if (values) finding.options["standardize_target"] = true;
  finding.notes = {fmt::format("a table of {} rows and {} columns", survey.rows, survey.columns.size()),
                   values ? fmt::format("column '{}' has numbers to predict", schema.target_column().name)
                          : fmt::format("column '{}' has {} classes", schema.target_column().name,
                                        schema.target_column().categories.size())};
  if (finding.options.contains("decimal")) finding.notes.push_back("a comma stands before decimals");
  if (finding.options.contains("header"))
    finding.notes.push_back("the first line has no names but values, so columns are called c1, c2, ...");
  if (finding.options.contains("ignore"))
    finding.notes.push_back(
        fmt::format("left out, as they say little (ids, or text that is another in nearly every row): {}",
                    option<std::string>(finding.options, "ignore")));
  return finding;
}

Finding inspect_text(const fs::path& path) {
  Finding finding{.data_set = "text", .kind = FindingKind::kTokens};
  const std::string text = read_text_file(path.string(), kMostTextBytes);
  std::uint32_t vocabulary = 256;
  try {  // the whole text: the held-out part must be UTF-8 too
    vocabulary = Vocabulary(TextLevel::kCharacters, text, path.string(), 0).size();
    finding.options["level"] = std::string("characters");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kBadInput) throw;
    finding.options["level"] = std::string("bytes");  // not UTF-8
  }
  const std::uint64_t bytes = text.size();
  // The held-out tenth must contain a window and the token after it; a character has at most 4 bytes.
  const auto most = static_cast<std::int64_t>(bytes / 40) - 1;
  if (most < 2)
    throw Error(ErrorCode::kBadInput,
                fmt::format("'{}' has {} bytes, too few to learn a language from", path.string(), bytes));
  const std::int64_t length = std::min(kStarterLength, most);
  finding.options["length"] = length;
  finding.samples = bytes / static_cast<std::uint64_t>(length);
  finding.notes = {fmt::format("text of {} bytes, with {} different {}", bytes, vocabulary,
                               option<std::string>(finding.options, "level")),
                   "its last tenth is tested on"};
  return finding;
}

Finding inspect_trees(const fs::path& folder) {
  DataConfig config;
  config.name = "s_expressions";
  config.path = folder.string();
  const DataSet set = open_s_expressions(config, {});
  Finding finding{.data_set = config.name, .kind = FindingKind::kTrees};
  finding.samples = set.train->size();
  finding.names = static_cast<std::int64_t>(tree_tokens(config).size());
  finding.notes = {fmt::format("{} trees of up to {} nodes with {} different names; {} classes",
                               finding.samples, set.train->spec().input_shape[0], finding.names,
                               set.train->spec().classes)};
  return finding;
}

// The kind of a packed set, inferred from the shape and the targets of its samples.
FindingKind kind_of(const SampleSpec& spec, const fs::path& path) {
  const std::size_t sides = spec.input_shape.size();
  const bool one_class = spec.classes > 0 && spec.target_shape.empty();
  if (spec.input_type == ElementType::kUint8 && sides == 3 && one_class) return FindingKind::kImages;
  if (has_tokens(spec) && sides == 1) return FindingKind::kTokens;  // not ids with one class, such as clicks
  if (spec.input_type == ElementType::kFloat32 && sides == 1 && (one_class || spec.classes == 0))
    return one_class ? FindingKind::kFeatureClasses : FindingKind::kFeatureValues;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("'{}' is a packed set of samples {}, for which init knows no model; write a job file "
                  "with data.name = \"packed\" (examples/jobs has one for every kind of model)",
                  path.string(), to_string(spec.input_shape)));
}

Finding inspect_packed(const fs::path& path) {
  const SliceIndex index = read_slice_index(path.string());
  Finding finding{.data_set = "packed", .kind = kind_of(index.spec, path)};
  finding.samples = index.train.samples;
  if (finding.kind == FindingKind::kImages)
    finding.side = std::min(index.spec.input_shape[1], index.spec.input_shape[2]);
  finding.notes = {fmt::format("packed slices of {}: {} samples {} to train on, {} to test on", index.origin,
                               index.train.samples, to_string(index.spec.input_shape), index.test.samples)};
  return finding;
}

// Refuses a folder without class folders that holds files to be given one by one, or compressed files.
void refuse_loose_files(const fs::path& folder) {
  fs::path table, compressed;  // the last one by name: train.csv rather than test.csv
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with('.')) continue;
    if (entry.is_directory()) return;
    const std::string ending = kind_ending(entry.path());
    if (ending == ".csv" || ending == ".tsv") table = std::max(table, entry.path());
    if (ending == ".tar" || ending == ".tgz") compressed = std::max(compressed, entry.path());
  }
  if (!table.empty())
    throw Error(
        ErrorCode::kBadInput,
        fmt::format(
            "'{}' is a folder of tables, and a table is one file: give one, such as '{}' (join those with "
            "the same columns first; option 'test' names one to test on)",
            folder.string(), table.string()));
  if (!compressed.empty())
    throw Error(ErrorCode::kBadInput,
                fmt::format("'{}' has compressed tar files, such as '{}'; shards are read by offset, so "
                            "decompress them (gunzip) and give the folder again",
                            folder.string(), compressed.string()));
}

Finding inspect_folder(const fs::path& path) {
  if (fs::exists(path / kIndexName)) return inspect_packed(path);
  if (fs::exists(path / "train.sexp")) return inspect_trees(path);
  if (has_idx(path)) return inspect_idx(path);
  if (has_cifar10(path)) return inspect_cifar("cifar10");
  if (has_cifar100(path)) return inspect_cifar("cifar100");
  const fs::path train = find_image_parts(path).train;
  if (has_shards(path) || has_shards(train)) return inspect_shards(path);
  refuse_loose_files(train);
  return inspect_images(path);
}

Finding look_into(const fs::path& path) {
  std::error_code failure;
  if (!fs::exists(path, failure))
    throw Error(ErrorCode::kUnavailable, fmt::format("there is no file or folder '{}'", path.string()));
  if (fs::is_directory(path, failure)) return inspect_folder(path);
  const std::string ending = kind_ending(path);
  if (ending == ".tar") return inspect_shards(path);
  if (ending == ".csv" || ending == ".tsv") return inspect_table(path);
  if (looks_like_text(path)) return inspect_text(path);
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("'{}' is no table (.csv, .tsv), no text and no .tar; of images give the folder that has a "
                  "folder for each class",
                  path.string()));
}

}  // namespace

std::string kind_ending(const fs::path& path) {
  const std::string ending = lower(path.extension().string());
  return ending == ".gz" ? lower(path.stem().extension().string()) : ending;
}

bool looks_like_text(const fs::path& path) {
  InputFile file(path);
  std::vector<std::uint8_t> start(4096);
  start.resize(file.read(start.data(), start.size()));
  return !start.empty() && std::find(start.begin(), start.end(), 0) == start.end();
}

Finding inspect(const fs::path& path) {
  return within_memory(path.string(), [&path] { return look_into(path); });
}

}  // namespace distbelief::data
