#include "distbelief/data/formats/webdataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "distbelief/base/error.h"
#include "distbelief/base/json_text.h"
#include "distbelief/data/formats/image_folder.h"
#include "distbelief/data/formats/table_field.h"
#include "distbelief/data/formats/tar_index.h"
#include "distbelief/data/io/random_access_file.h"
#include "distbelief/data/known_set.h"
#include "distbelief/data/pipeline/held_out.h"

namespace distbelief::data {
namespace {

constexpr std::uint64_t kMostLabelBytes = 64 << 10;
constexpr std::int64_t kMostLabel = 100'000;  // the same limit as for named classes
constexpr std::size_t kMostNameBytes = 256;   // limit of a class name
constexpr std::size_t kMostNames = 100'000;
constexpr const char* kUsualJsonKey = "label";

Error shard_fault(const RandomAccessFile& file, std::uint64_t offset, const std::string& what) {
  return Error(ErrorCode::kBadInput, fmt::format("{}: {}", file.at(offset), what));
}

struct MemberName {
  std::string_view key;     // the last path component, up to its first dot
  std::string_view ending;  // the rest, without that dot
};

MemberName split_name(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t dot = name.find('.', slash == std::string_view::npos ? 0 : slash + 1);
  if (dot == std::string_view::npos) return {name, {}};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

// The class of a sample as the shard states it: a number from 0, or a name.
struct Label {
  std::int64_t number = -1;
  std::string name;

  bool is_class() const { return !name.empty() || (number >= 0 && number < kMostLabel); }
};

Label label_in_text(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  text = trimmed(text);
  Label label;
  double value = 0;
  if (parse_number(text, value)) {
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), label.number);
    if (failure != std::errc{} || end != text.data() + text.size()) label.number = -1;
  } else if (text.size() <= kMostNameBytes &&
             std::none_of(text.begin(), text.end(), [](unsigned char c) { return std::iscntrl(c) != 0; })) {
    label.name = text;
  }
  return label;
}

Label label_in_json(const std::string& text, const std::string& key) {
  const nlohmann::json object = json_or_discarded(text);
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  if (found == object.end()) return {};
  if (found->is_string()) return label_in_text(found->get_ref<const std::string&>());
  return found->is_number_integer() ? Label{.number = found->get<std::int64_t>(), .name = {}} : Label{};
}

std::string read_member(const RandomAccessFile& file, const TarMember& member) {
  if (member.size > kMostLabelBytes)
    throw shard_fault(file, member.offset,
                      fmt::format("label '{}' has {} bytes, at most {} are taken", member.name, member.size,
                                  kMostLabelBytes));
  std::string text(member.size, '\0');
  file.read(member.offset, text.data(), text.size());
  return text;
}

Label read_label(const RandomAccessFile& file, const TarMember& member, std::string_view ending,
                 const std::string& json_key) {
  const std::string text = read_member(file, member);
  Label label = ending == "json" ? label_in_json(text, json_key) : label_in_text(text);
  if (!label.is_class())
    throw shard_fault(
        file, member.offset,
        fmt::format("'{}' must hold a class, a number from 0 to {} or a name{}, found '{}'", member.name,
                    kMostLabel - 1,
                    ending == "json" ? fmt::format(", under \"{}\" (option json_key)", json_key) : "",
                    shown(text)));
  return label;
}

// Numbers class names in order of appearance; finish() renumbers them in sorted order.
class NamedClasses {
 public:
  // Returns the number of this class. Throws for shards that mix numbered and named classes.
  std::int32_t number_of(const RandomAccessFile& file, const TarMember& member, const Label& label) {
    const Kind kind = label.name.empty() ? Kind::kNumbers : Kind::kNames;
    if (kind_ != Kind::kNone && kind != kind_)
      throw shard_fault(
          file, member.offset,
          fmt::format("'{}' has {}, but the samples before it have {}: classes are all numbers, "
                      "or all names",
                      member.name,
                      kind == Kind::kNames ? fmt::format("the name '{}'", label.name)
                                           : fmt::format("the number {}", label.number),
                      kind == Kind::kNames ? "numbers" : "names"));
    kind_ = kind;
    if (kind == Kind::kNumbers) return static_cast<std::int32_t>(label.number);
    const auto [place, added] = numbers_.emplace(label.name, static_cast<std::int32_t>(numbers_.size()));
    if (added && numbers_.size() > kMostNames)
      throw shard_fault(
          file, member.offset,
          fmt::format("there are more than {} names of classes; is '{}' one?", kMostNames, label.name));
    return place->second;
  }

  // Renumbers the samples in the sorted order of their class names.
  void finish(ShardIndex& index) const {
    std::vector<std::int32_t> places(numbers_.size());
    for (const auto& [name, number] : numbers_) {
      places[static_cast<std::size_t>(number)] = static_cast<std::int32_t>(index.names.size());
      index.names.push_back(name);
    }
    if (!index.names.empty())
      for (ShardSample& sample : index.samples) sample.label = places[static_cast<std::size_t>(sample.label)];
  }

 private:
  enum class Kind { kNone, kNumbers, kNames };
  Kind kind_ = Kind::kNone;
  std::map<std::string, std::int32_t> numbers_;
};

// Tests the whole ending: "0001.seg.png" belongs to sample 0001 but is not its image; it may be a mask.
bool is_image_of_sample(std::string_view ending) {
  return ending.find('.') == std::string_view::npos && has_image_ending("x." + std::string(ending));
}

// Collects the files of one sample after the other.
class SampleGatherer {
 public:
  SampleGatherer(const RandomAccessFile& file, std::uint32_t shard, const std::string& json_key,
                 NamedClasses& classes, ShardIndex& index)
      : file_(file),
        json_key_(json_key),
        classes_(classes),
        index_(index) {
    sample_.shard = shard;
  }

  void add(const TarMember& member) {
    const MemberName name = split_name(member.name);
    if (name.key != key_) {
      finish();
      key_ = name.key;
      first_byte_ = member.offset;
    }
    if (is_image_of_sample(name.ending)) add_image(member);
    if (name.ending == "cls") class_ = member;
    if (name.ending == "json") json_ = member;
  }

  // Finishes the current sample.
  void finish() {
    const bool has_class = class_ || json_;
    if (sample_.bytes > 0 || has_class) {  // otherwise the sample has only files of other kinds
      if (sample_.bytes == 0 || !has_class)
        throw shard_fault(
            file_, first_byte_,
            fmt::format("sample '{}' has no {}", key_,
                        sample_.bytes == 0 ? ".jpg, .jpeg or .png" : ".cls or .json for its class"));
      const TarMember& member = class_ ? *class_ : *json_;
      sample_.label =
          classes_.number_of(file_, member, read_label(file_, member, class_ ? "cls" : "json", json_key_));
      index_.samples.push_back(sample_);
      index_.classes = std::max<std::int64_t>(index_.classes, sample_.label + 1);
    }
    sample_ = {.shard = sample_.shard, .label = -1};
    class_.reset();
    json_.reset();
  }

 private:
  void add_image(const TarMember& member) {
    if (sample_.bytes > 0)
      throw shard_fault(
          file_, member.offset,
          fmt::format("sample '{}' has two images, '{}' and '{}'; keep one of them in the shard", key_,
                      image_, member.name));
    if (member.size == 0 || member.size > kMostImageBytes)
      throw shard_fault(file_, member.offset,
                        fmt::format("image '{}' has {} bytes, 1 to {} are taken", member.name, member.size,
                                    kMostImageBytes));
    image_ = member.name;
    sample_.offset = member.offset;
    sample_.bytes = static_cast<std::uint32_t>(member.size);
  }

  const RandomAccessFile& file_;
  const std::string& json_key_;
  NamedClasses& classes_;
  ShardIndex& index_;
  std::string key_;
  std::string image_;  // image file of the current sample
  std::uint64_t first_byte_ = 0;
  std::optional<TarMember> class_, json_;  // the current sample's files that state its class
  ShardSample sample_{.label = -1};
};

std::vector<ShardSample> kept_samples(const ShardIndex& index, const std::vector<bool>& held_out, bool held) {
  std::vector<ShardSample> kept;
  for (std::size_t i = 0; i < index.samples.size(); ++i)
    if (held_out[i] == held) kept.push_back(index.samples[i]);
  return kept;
}

// Merges the classes of all parts; with named classes in `known`, throws for any other name. Renumbers
// samples with named classes.
ClassList number_classes(std::span<ShardIndex* const> parts, const ClassList& known) {
  const ShardIndex& first = *parts.front();
  ClassList all{.names = known.names};
  for (const ShardIndex* part : parts) {
    if (part->names.empty() != first.names.empty())
      throw Error(ErrorCode::kBadInput,
                  fmt::format("classes of '{}' are {}, those of '{}' {}", first.shards.front().string(),
                              first.names.empty() ? "numbers" : "names", part->shards.front().string(),
                              part->names.empty() ? "numbers" : "names"));
    all.count = std::max(all.count, part->classes);
    for (const std::string& name : part->names) {
      const auto place = std::lower_bound(all.names.begin(), all.names.end(), name);
      if (place != all.names.end() && *place == name) continue;
      if (!known.names.empty())
        throw Error(ErrorCode::kBadInput,
                    fmt::format("'{}' has a class '{}' that the images to train on have not; they have {}",
                                part->shards.front().string(), name, fmt::join(known.names, ", ")));
      all.names.insert(place, name);
    }
  }
  if (first.names.empty()) {
    all.names.clear();
    all.count = std::max(all.count, known.count);
    return all;
  }
  all.count = std::int64_t(all.names.size());
  if (all.count == 1)
    throw Error(ErrorCode::kBadInput,
                fmt::format("all samples are of class '{}'; two or more are wanted", all.names.front()));
  for (ShardIndex* part : parts)
    for (ShardSample& sample : part->samples)
      sample.label = static_cast<std::int32_t>(
          std::lower_bound(all.names.begin(), all.names.end(), part->names[std::size_t(sample.label)]) -
          all.names.begin());
  return all;
}

// Without known classes, the shards define them.
DataSet open_shards_as(const DataConfig& config, const OptionMap& options, const ClassList& known) {
  if (config.path.empty()) throw Error(ErrorCode::kUnavailable, "set data.path to a folder of tar shards");
  const ImageSettings settings = image_settings("data set 'webdataset'", options);
  const auto learnt = std::make_shared<const Learnt>(Learnt{.images = settings});
  const std::string& json_key = option<std::string>(options, "json_key");
  const ImageParts parts = find_image_parts(config.path);
  const auto train = std::make_shared<ShardIndex>(index_shards(find_shards(parts.train), json_key));
  if (parts.test.empty()) {
    ShardIndex* const all[] = {train.get()};
    const ClassList classes = number_classes(all, known);
    const std::vector<bool> held = hold_out(train->samples.size(), options);
    return {std::make_unique<WebDatasetSource>(train, kept_samples(*train, held, false), settings, classes),
            std::make_unique<WebDatasetSource>(train, kept_samples(*train, held, true), settings, classes),
            learnt, held.size()};
  }
  const auto test = std::make_shared<ShardIndex>(index_shards(find_shards(parts.test), json_key));
  ShardIndex* const all[] = {train.get(), test.get()};
  const ClassList classes = number_classes(all, known);
  return {std::make_unique<WebDatasetSource>(train, train->samples, settings, classes),
          std::make_unique<WebDatasetSource>(test, test->samples, settings, classes), learnt};
}

DataSet open_webdataset(const DataConfig& config, const OptionMap& options) {
  return open_shards_as(config, options, {});
}

DataSet reopen_webdataset(const DataConfig& config, const OptionMap& options, const KnownSet& known) {
  return open_shards_as(config, options, {.count = known.spec.classes, .names = known.spec.class_names});
}

std::vector<OptionSpec> webdataset_options() {
  std::vector<OptionSpec> options = image_options();
  options.push_back({"json_key", std::string(kUsualJsonKey), "what the class is called in .json files"});
  for (OptionSpec& held : held_out_options()) options.push_back(std::move(held));
  return options;
}

}  // namespace

ShardIndex index_shards(std::vector<std::filesystem::path> shards, const std::string& json_key) {
  ShardIndex index;
  NamedClasses classes;
  index.shards = std::move(shards);
  for (std::size_t i = 0; i < index.shards.size(); ++i) {
    const RandomAccessFile file(index.shards[i]);
    SampleGatherer gatherer(file, static_cast<std::uint32_t>(i), json_key, classes, index);
    for (const TarMember& member : index_tar(index.shards[i])) gatherer.add(member);
    gatherer.finish();
  }
  if (index.samples.empty())
    throw Error(ErrorCode::kBadInput,
                fmt::format("'{}' and its like hold no samples: images with .cls or .json",
                            index.shards.front().string()));
  classes.finish(index);
  index.classes = std::max<std::int64_t>(index.classes, 2);
  return index;
}

std::string likely_json_key(const std::vector<std::filesystem::path>& shards) {
  const RandomAccessFile file(shards.front());
  std::string first_key;
  nlohmann::json found;
  for (const TarMember& member : index_tar(shards.front())) {
    const MemberName name = split_name(member.name);
    if (!found.is_null() && name.key != first_key) break;
    if (name.ending == "cls") return kUsualJsonKey;
    if (name.ending != "json") continue;
    first_key = name.key;
    found = json_or_discarded(read_member(file, member));
    if (!found.is_object()) return kUsualJsonKey;  // index_shards() reports it
  }
  if (found.is_null()) return kUsualJsonKey;
  std::vector<std::string> all, possible;
  for (const auto& [key, value] : found.items()) {
    all.push_back(key);
    const bool is_whole = value.is_number_integer() && value.get<std::int64_t>() >= 0;
    if (is_whole || (value.is_string() && label_in_text(value.get_ref<const std::string&>()).is_class()))
      possible.push_back(key);
  }
  for (const char* usual : {kUsualJsonKey, "class", "cls", "target", "y", "label_name", "class_name",
                            "label_id", "class_id", "category"})
    if (std::find(possible.begin(), possible.end(), usual) != possible.end()) return usual;
  if (possible.size() == 1) return possible.front();
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("'{}' and its like: which key of '{}.json' has the class is not clear, it has {}; "
                  "write a job file with data.name = \"webdataset\" and data.json_key",
                  shards.front().string(), first_key, shown(fmt::format("{}", fmt::join(all, ", ")))));
}

WebDatasetSource::WebDatasetSource(std::shared_ptr<const ShardIndex> index, std::vector<ShardSample> samples,
                                   const ImageSettings& settings, const ClassList& classes)
    : index_(std::move(index)),
      samples_(std::move(samples)),
      settings_(settings) {
  spec_ = image_spec(settings_, classes.count);
  spec_.class_names = classes.names;
}

void WebDatasetSource::read(std::uint64_t index, void* input, void* target) const {
  DISTBELIEF_INVARIANT(index < size());
  const ShardSample& sample = samples_[index];
  ImageDecoder& decoder = thread_decoder();
  const RandomAccessFile file(index_->shards[sample.shard]);  // opened per read: the limit on open files is
                                                              // low, and there may be thousands of shards
  decoder.file_space().resize(sample.bytes);
  file.read(sample.offset, decoder.file_space().data(), sample.bytes);
  try {
    decoder.decode(decoder.file_space(), settings_, static_cast<std::uint8_t*>(input));
  } catch (const ImageFault& fault) {
    throw shard_fault(file, sample.offset + fault.offset(), fault.what());
  }
  *static_cast<std::int64_t*>(target) = sample.label;
}

void WebDatasetSource::read_columns(std::uint64_t index, std::uint64_t begin, std::uint64_t count,
                                    void* input, void* target) const {
  if (count > 0) return Source::read_columns(index, begin, count, input, target);
  *static_cast<std::int64_t*>(target) = samples_[index].label;
}

std::vector<std::filesystem::path> find_shards(const std::filesystem::path& path) {
  std::error_code failure;
  if (!std::filesystem::is_directory(path, failure)) return {path};
  std::vector<std::filesystem::path> shards;
  for (const auto& entry : std::filesystem::directory_iterator(path, failure))
    if (entry.path().extension() == ".tar" && entry.is_regular_file()) shards.push_back(entry.path());
  if (shards.empty())
    throw Error(ErrorCode::kUnavailable, fmt::format("there is no .tar file in '{}'", path.string()));
  std::sort(shards.begin(), shards.end());
  return shards;
}

DataSetEntry webdataset_entry() {
  return {"webdataset",         "images of your own in tar shards, as WebDataset has them",
          webdataset_options(), open_webdataset,
          reopen_webdataset,    SampleOrder::kByClass};
}

}  // namespace distbelief::data
