#include "distbelief/data/webdataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/base/json_text.h"
#include "distbelief/data/held_out.h"
#include "distbelief/data/image_folder.h"
#include "distbelief/data/known_set.h"
#include "distbelief/data/random_access_file.h"
#include "distbelief/data/table_field.h"
#include "distbelief/data/tar_index.h"

namespace distbelief::data {
namespace {

constexpr std::uint64_t kMostLabelBytes = 64 << 10;
constexpr std::int64_t kMostLabel = 1 << 24;

Error shard_fault(const RandomAccessFile& file, std::uint64_t offset, const std::string& what) {
  return Error(ErrorCode::kBadInput, fmt::format("{}: {}", file.at(offset), what));
}

struct MemberName {
  std::string_view key;     // up to the first dot of the last part
  std::string_view ending;  // after it
};

MemberName split_name(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t dot = name.find('.', slash == std::string_view::npos ? 0 : slash + 1);
  if (dot == std::string_view::npos) return {name, {}};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

std::int64_t label_in_json(const std::string& text, const std::string& key) {
  const nlohmann::json object = json_or_discarded(text);
  if (!object.is_object()) return -1;
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : -1;
}

std::int64_t label_in_text(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  text = trimmed(text);
  std::int64_t label = -1;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), label);
  return failure == std::errc{} && end == text.data() + text.size() ? label : -1;
}

std::int32_t read_label(const RandomAccessFile& file, const TarMember& member, std::string_view ending,
                        const std::string& json_key) {
  if (member.size > kMostLabelBytes)
    throw shard_fault(file, member.offset,
                      fmt::format("label '{}' has {} bytes, at most {} are taken", member.name, member.size,
                                  kMostLabelBytes));
  std::string text(member.size, '\0');
  file.read(member.offset, text.data(), text.size());
  const std::int64_t label = ending == "json" ? label_in_json(text, json_key) : label_in_text(text);
  if (label < 0 || label >= kMostLabel)
    throw shard_fault(
        file, member.offset,
        fmt::format("'{}' must hold a class, a number from 0{}, found '{}'", member.name,
                    ending == "json" ? fmt::format(" under \"{}\" (option json_key)", json_key) : "",
                    shown(text)));
  return static_cast<std::int32_t>(label);
}

// Of the whole ending: "0001.seg.png" is something else about sample 0001, such as a mask.
bool is_image_of_sample(std::string_view ending) {
  return ending.find('.') == std::string_view::npos && has_image_ending("x." + std::string(ending));
}

// Gathers the files of one sample after the other.
class SampleGatherer {
 public:
  SampleGatherer(const RandomAccessFile& file, std::uint32_t shard, const std::string& json_key,
                 ShardIndex& index)
      : file_(file),
        json_key_(json_key),
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
    if (is_image_of_sample(name.ending)) {
      add_image(member);
    } else if (name.ending == "cls" || (name.ending == "json" && sample_.label < 0)) {
      sample_.label = read_label(file_, member, name.ending, json_key_);
    }
  }

  // Of the sample so far.
  void finish() {
    const bool nothing = sample_.bytes == 0 && sample_.label < 0;  // only files of other kinds
    if (!nothing) {
      if (sample_.bytes == 0 || sample_.label < 0)
        throw shard_fault(
            file_, first_byte_,
            fmt::format("sample '{}' has no {}", key_,
                        sample_.bytes == 0 ? ".jpg, .jpeg or .png" : ".cls or .json for its class"));
      index_.samples.push_back(sample_);
      index_.classes = std::max<std::int64_t>(index_.classes, sample_.label + 1);
    }
    sample_ = {.shard = sample_.shard, .label = -1};
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
  ShardIndex& index_;
  std::string key_;
  std::string image_;  // of the sample so far
  std::uint64_t first_byte_ = 0;
  ShardSample sample_{.label = -1};
};

std::vector<ShardSample> kept_samples(const ShardIndex& index, const std::vector<bool>& held_out, bool held) {
  std::vector<ShardSample> kept;
  for (std::size_t i = 0; i < index.samples.size(); ++i)
    if (held_out[i] == held) kept.push_back(index.samples[i]);
  return kept;
}

// With `known_classes` above 0 there are so many, and labels are below it.
DataSet open_shards_as(const DataConfig& config, const OptionMap& options, std::int64_t known_classes) {
  if (config.path.empty()) throw Error(ErrorCode::kUnavailable, "set data.path to a folder of tar shards");
  const ImageSettings settings = image_settings("data set 'webdataset'", options);
  const auto learnt = std::make_shared<const Learnt>(Learnt{.images = settings});
  const std::string& json_key = option<std::string>(options, "json_key");
  const ImageParts parts = find_image_parts(config.path);
  const auto train = std::make_shared<const ShardIndex>(index_shards(find_shards(parts.train), json_key));
  const auto test = parts.test.empty()
                        ? train
                        : std::make_shared<const ShardIndex>(index_shards(find_shards(parts.test), json_key));
  const std::int64_t found = std::max(train->classes, test->classes);
  const std::int64_t classes = known_classes > 0 && found <= known_classes ? known_classes : found;
  if (parts.test.empty()) {
    const std::vector<bool> held = hold_out(train->samples.size(), options);
    return {std::make_unique<WebDatasetSource>(train, kept_samples(*train, held, false), settings, classes),
            std::make_unique<WebDatasetSource>(train, kept_samples(*train, held, true), settings, classes),
            learnt};
  }
  return {std::make_unique<WebDatasetSource>(train, train->samples, settings, classes),
          std::make_unique<WebDatasetSource>(test, test->samples, settings, classes), learnt};
}

DataSet open_webdataset(const DataConfig& config, const OptionMap& options) {
  return open_shards_as(config, options, 0);
}

DataSet reopen_webdataset(const DataConfig& config, const OptionMap& options, const KnownSet& known) {
  return open_shards_as(config, options, known.spec.classes);
}

std::vector<OptionSpec> webdataset_options() {
  std::vector<OptionSpec> options = image_options();
  options.push_back({"json_key", std::string("label"), "what the class is called in .json files"});
  for (OptionSpec& held : held_out_options()) options.push_back(std::move(held));
  return options;
}

}  // namespace

ShardIndex index_shards(std::vector<std::filesystem::path> shards, const std::string& json_key) {
  ShardIndex index;
  index.shards = std::move(shards);
  for (std::size_t i = 0; i < index.shards.size(); ++i) {
    const RandomAccessFile file(index.shards[i]);
    SampleGatherer gatherer(file, static_cast<std::uint32_t>(i), json_key, index);
    for (const TarMember& member : index_tar(index.shards[i])) gatherer.add(member);
    gatherer.finish();
  }
  if (index.samples.empty())
    throw Error(ErrorCode::kBadInput,
                fmt::format("'{}' and its like hold no samples: images with .cls or .json",
                            index.shards.front().string()));
  index.classes = std::max<std::int64_t>(index.classes, 2);
  return index;
}

WebDatasetSource::WebDatasetSource(std::shared_ptr<const ShardIndex> index, std::vector<ShardSample> samples,
                                   const ImageSettings& settings, std::int64_t classes)
    : index_(std::move(index)),
      samples_(std::move(samples)),
      settings_(settings) {
  spec_ = image_spec(settings_, classes);
}

void WebDatasetSource::read(std::uint64_t index, void* input, void* target) const {
  DISTBELIEF_INVARIANT(index < size());
  const ShardSample& sample = samples_[index];
  ImageDecoder& decoder = thread_decoder();
  const RandomAccessFile file(index_->shards[sample.shard]);  // open files are few, shards may be thousands
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
  return {"webdataset", "images of your own in tar shards, as WebDataset has them", webdataset_options(),
          open_webdataset, reopen_webdataset};
}

}  // namespace distbelief::data
