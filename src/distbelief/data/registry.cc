#include "distbelief/data/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/base/hash.h"
#include "distbelief/data/formats/cifar.h"
#include "distbelief/data/formats/idx.h"
#include "distbelief/data/formats/image_folder.h"
#include "distbelief/data/formats/s_expressions.h"
#include "distbelief/data/formats/table_source.h"
#include "distbelief/data/formats/text.h"
#include "distbelief/data/formats/webdataset.h"
#include "distbelief/data/generated/generated_sets.h"
#include "distbelief/data/io/fetch.h"
#include "distbelief/data/io/file_list.h"
#include "distbelief/data/io/memory_fault.h"
#include "distbelief/data/known_set.h"
#include "distbelief/data/learnt.h"
#include "distbelief/data/pipeline/batch.h"
#include "distbelief/data/slices/packed_source.h"
#include "distbelief/data/slices/sample_cache.h"

namespace distbelief::data {
namespace {

constexpr std::size_t kMostFilesLookedAt = 10'000;  // inspecting each takes time on a file server
constexpr std::size_t kDigits = 24;

constexpr std::uint64_t kPlaces = 64;  // a limit reads from at least so many slices

// A subset of `limit` samples of another source. It takes the first ones; if samples of one class may be
// consecutive, it takes evenly spaced runs: of one sample, or longer ones where reading a sample loads a
// whole slice, so that few slices are read.
class LimitedSource : public Source {
 public:
  LimitedSource(std::unique_ptr<Source> whole, std::uint64_t limit, SampleOrder order)
      : whole_(std::move(whole)),
        size_(limit),
        run_(order == SampleOrder::kMixed ? limit : run_of(whole_->locality(), limit)),
        runs_((limit + run_ - 1) / run_) {
    spec_ = whole_->spec();
  }

  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t index, void* input, void* target) const override {
    DISTBELIEF_INVARIANT(index < size_);
    whole_->read(place(index), input, target);
  }
  void read_columns(std::uint64_t index, std::uint64_t begin, std::uint64_t count, void* input,
                    void* target) const override {
    DISTBELIEF_INVARIANT(index < size_);
    whole_->read_columns(place(index), begin, count, input, target);
  }
  void expect(std::uint64_t index) const override { whole_->expect(place(index)); }
  Locality locality() const override {
    const Locality whole = whole_->locality();
    if (whole.slice == 0 || runs_ == 1) return whole;
    // A run spans at most two slices.
    return {.slice = run_, .run = 1, .window = std::max(run_, whole.window / whole.slice / 2 * run_)};
  }
  void announce(Range samples) const override {
    const std::uint64_t end = std::min(samples.end, size_);
    for (std::uint64_t begin = std::min(samples.begin, size_); begin < end;) {
      const std::uint64_t last = std::min((begin / run_ + 1) * run_, end) - 1;
      whole_->announce({place(begin), place(last) + 1});
      begin = last + 1;
    }
  }

 private:
  static std::uint64_t run_of(const Locality& locality, std::uint64_t limit) {
    return std::clamp<std::uint64_t>(limit / kPlaces, 1, std::max<std::uint64_t>(1, locality.slice));
  }
  // The omitted samples lie between the runs, distributed evenly.
  std::uint64_t place(std::uint64_t index) const {
    return index + index / run_ * (whole_->size() - size_) / runs_;
  }

  std::unique_ptr<Source> whole_;
  std::uint64_t size_;
  std::uint64_t run_;  // samples per run
  std::uint64_t runs_;
};

std::unique_ptr<Source> limited(std::unique_ptr<Source> source, const char* key, std::int64_t limit,
                                SampleOrder order) {
  if (limit < 0) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("data.{} must be 0 (all samples) or more, it is {}", key, limit));
  }
  if (limit == 0 || static_cast<std::uint64_t>(limit) >= source->size()) return source;
  return std::make_unique<LimitedSource>(std::move(source), static_cast<std::uint64_t>(limit), order);
}

// The folder of a set that can be downloaded: that of Debian's package if it exists, otherwise that of
// `distbelief data get`.
std::string usual_folder(const std::string& name) {
  std::error_code ignored;  // whatever the reason, the folder is unavailable
  for (const RemoteSet& set : remote_sets())
    if (set.name == name)
      return !std::filesystem::exists(set.installed, ignored) && std::filesystem::exists(set.folder, ignored)
                 ? set.folder
                 : set.installed;
  return {};
}

DataSet open_mnist(const DataConfig& config, const OptionMap&) {
  return open_idx_folder(
      config.path, {.classes = 10, .mean = 0.1307F, .deviation = 0.3081F},
      "distbelief data get mnist fetches it; or set data.path to the folder that has MNIST's four IDX files");
}

DataSet open_fashion_mnist(const DataConfig& config, const OptionMap&) {
  return open_idx_folder(config.path,
                         {.classes = 10,
                          .mean = 0.2860F,
                          .deviation = 0.3530F,
                          .class_names = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal",
                                          "Shirt", "Sneaker", "Bag", "Ankle boot"}},
                         "on Debian: apt-get install dataset-fashion-mnist; elsewhere: distbelief data get "
                         "fashion_mnist; or set "
                         "data.path to the folder that has the four IDX files");
}

constexpr std::uint64_t kMegabyte = std::uint64_t{1} << 20;

DataSet open_packed_set(const DataConfig& config, const OptionMap& options) {
  if (config.path.empty())
    throw Error(ErrorCode::kUnavailable,
                "set data.path to the folder or URL of a packed set; distbelief data pack makes one");
  const auto positive = [&options](const char* name) {
    const std::int64_t value = option<std::int64_t>(options, name);
    if (value >= 1 && value <= (std::int64_t{1} << 30)) return static_cast<std::uint64_t>(value);
    throw Error(ErrorCode::kBadInput,
                fmt::format("data set 'packed': option '{}' must be 1 or more, it is {}", name, value),
                {.key = std::string("data.") + name});
  };
  return open_packed(config.path, {.cache_bytes = positive("cache_mb") * kMegabyte,
                                   .transfer_bytes = positive("transfer_mb") * kMegabyte,
                                   .threads = static_cast<int>(positive("threads")),
                                   .ca_file = option<std::string>(options, "ca_file")});
}

std::vector<DataSetEntry> make_table() {
  std::vector<DataSetEntry> table = {
      {"mnist", "handwritten digits, 60,000 + 10,000 grey images of 28 x 28, 10 classes", {}, open_mnist},
      {"fashion_mnist",
       "articles of clothing, 60,000 + 10,000 grey images of 28 x 28, 10 classes",
       {},
       open_fashion_mnist},
      cifar10_entry(),
      cifar100_entry(),
      image_folder_entry(),
      webdataset_entry(),
      table_entry(),
      text_entry(),
      {"packed",
       "slices that distbelief data pack made, in the folder or at the URL data.path",
       {{"cache_mb", std::int64_t{256},
         "decompressed slices that a worker holds; two fifths are shuffled together"},
        {"transfer_mb", std::int64_t{4}, "neighbouring slices, decompressed, that one transfer brings"},
        {"threads", std::int64_t{2}, "of a worker, that read and decompress ahead"},
        {"ca_file", std::string(),
         "PEM file of who vouches for an https server; empty: SSL_CERT_FILE, or the system's"}},
       open_packed_set,
       nullptr,
       SampleOrder::kByClass},
      {"s_expressions",
       "trees of text files: lines of a label and an s-expression, in train.sexp and test.sexp of data.path",
       {},
       open_s_expressions,
       reopen_s_expressions,
       SampleOrder::kByClass},
  };
  for (DataSetEntry& entry : generated_entries()) table.push_back(std::move(entry));
  return table;
}

DataConfig with_path(DataConfig config) {
  if (config.path.empty()) config.path = usual_folder(config.name);
  return config;
}

std::vector<std::string> places_of(const DataConfig& config, const OptionMap& options) {
  std::vector<std::string> places = {config.path};
  if (const auto other = options.find("test"); other != options.end())
    if (const auto* file = std::get_if<std::string>(&other->second)) places.push_back(*file);
  return places;
}

// Changed data may have samples that the network cannot take; the error cannot name the file.
void require_known_samples(const KnownSet& known, const DataSet& set, const DataConfig& config) {
  try {
    require_same_samples(known.spec, set.train->spec());
    require_same_samples(known.spec, set.test->spec());
  } catch (const Error& error) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} is not what the run was trained on: {}",
                            config.path.empty() ? "data set '" + config.name + "'" : "'" + config.path + "'",
                            error.message()));
  }
}

DataSet open_as(const DataConfig& given, const KnownSet* known, const AroundPacking& around) {
  const DataConfig config = with_path(given);
  const DataSetEntry& entry = find_data_set(config.name);
  const OptionMap options = data_set_options(config.name, config.options);
  DataSet set = within_memory(config.path, [&] {
    return known != nullptr && entry.reopen != nullptr ? entry.reopen(config, options, *known)
                                                       : entry.open(config, options);
  });
  if (known != nullptr) require_known_samples(*known, set, config);
  if (!config.augment.empty()) require_augmentable(set.train->spec());
  // A text continues from sample to sample, also when it is packed.
  const bool is_text = set.learnt && set.learnt->vocabulary;
  const SampleOrder order = is_text ? SampleOrder::kMixed : entry.order;
  set.train = limited(std::move(set.train), "train_limit", config.train_limit, order);
  set.test = limited(std::move(set.test), "test_limit", config.test_limit, order);
  if (!options.contains("cache") || option<std::string>(options, "cache").empty()) return set;
  // For changed files, the run's preprocessing differs from that of a run that begins now, so they need
  // separate caches.
  const bool is_other =
      known != nullptr && known->learnt && data_fingerprint(config, set) != known->fingerprints.front();
  return cached(std::move(set),
                {.folder = option<std::string>(options, "cache"),
                 .name = config.name,
                 .places = places_of(config, options),
                 .options = options,
                 .learnt = is_other ? to_json(*known->learnt).dump() : ""},
                around);
}

// Adds the option that every data set has.
std::vector<DataSetEntry> with_cache(std::vector<DataSetEntry> table) {
  for (DataSetEntry& entry : table)
    if (entry.name != "packed")
      entry.options.push_back(
          {"cache", std::string(), "folder that keeps samples as packed slices; empty: none"});
  return table;
}

}  // namespace

namespace {

std::vector<DataSetEntry>& table_of_data_sets() {
  static std::vector<DataSetEntry> table = with_cache(make_table());
  return table;
}

}  // namespace

const std::vector<DataSetEntry>& data_sets() { return table_of_data_sets(); }

void register_data_set(DataSetEntry entry) {
  for (const DataSetEntry& known : data_sets())
    if (known.name == entry.name)
      throw Error(ErrorCode::kBadInput,
                  fmt::format("there is a data set '{}' already; choose another name", entry.name));
  table_of_data_sets().push_back(with_cache({std::move(entry)}).front());
}

const DataSetEntry& find_data_set(const std::string& name) {
  std::vector<std::string> names;
  for (const DataSetEntry& entry : data_sets()) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  const std::string near = nearest(name, names);
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("there is no data set '{}'{}; known are {}", name,
                  near.empty() ? "" : fmt::format(", did you mean '{}'?", near), fmt::join(names, ", ")),
      {.key = "data.name"});
}

OptionMap data_set_options(const std::string& name, const OptionMap& given) {
  return resolve_options(fmt::format("data set '{}'", name), find_data_set(name).options, given);
}

DataSet open_data_set(const DataConfig& config, const AroundPacking& around) {
  return open_as(config, nullptr, around);
}

DataSet open_data_set(const DataConfig& config, const KnownSet& known, const AroundPacking& around) {
  return open_as(config, &known, around);
}

std::string data_fingerprint(const DataConfig& given, const DataSet& set) {
  const DataConfig config = with_path(given);
  std::string text = fmt::format("{} {}\n", set.train->size(), set.test->size());
  const OptionMap options = data_set_options(config.name, config.options);
  const auto cache = options.find("cache");  // it may lie among the data, and it comes and goes
  const FileListOptions looking{.except = cache == options.end() ? "" : std::get<std::string>(cache->second),
                                .most_looked_at = kMostFilesLookedAt};
  for (const std::string& place : places_of(config, options))
    for (const FoundFile& file : list_files(place, looking))
      text += fmt::format("{} {} {}\n", file.name, file.bytes, file.time);
  Sha256 hash;
  hash.update(text.data(), text.size());
  return hash.hex().substr(0, kDigits);
}

KnownSet describe_data(const DataConfig& config, const DataSet& set) {
  return {.name = config.name,
          .spec = set.train->spec(),
          .learnt = set.learnt,
          .fingerprints = {data_fingerprint(config, set)},
          .held_out_of = set.held_out_of};
}

}  // namespace distbelief::data
