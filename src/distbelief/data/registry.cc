#include "distbelief/data/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "distbelief/base/error.h"
#include "distbelief/data/batch.h"
#include "distbelief/data/cifar.h"
#include "distbelief/data/environment.h"
#include "distbelief/data/fetch.h"
#include "distbelief/data/idx.h"
#include "distbelief/data/image_folder.h"
#include "distbelief/data/slices/packed_source.h"
#include "distbelief/data/slices/sample_cache.h"
#include "distbelief/data/synthetic.h"
#include "distbelief/data/synthetic_shapes.h"
#include "distbelief/data/synthetic_speech.h"
#include "distbelief/data/synthetic_table.h"
#include "distbelief/data/table_source.h"
#include "distbelief/data/text.h"
#include "distbelief/data/tree.h"
#include "distbelief/data/webdataset.h"

namespace distbelief::data {
namespace {

// The first `limit` samples of another source.
class LimitedSource : public Source {
 public:
  LimitedSource(std::unique_ptr<Source> whole, std::uint64_t limit)
      : whole_(std::move(whole)),
        size_(std::min(limit, whole_->size())) {
    spec_ = whole_->spec();
  }

  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t index, void* input, void* target) const override {
    DISTBELIEF_INVARIANT(index < size_);
    whole_->read(index, input, target);
  }
  void read_columns(std::uint64_t index, std::uint64_t begin, std::uint64_t count, void* input,
                    void* target) const override {
    DISTBELIEF_INVARIANT(index < size_);
    whole_->read_columns(index, begin, count, input, target);
  }
  void expect(std::uint64_t index) const override { whole_->expect(index); }
  Locality locality() const override { return whole_->locality(); }
  void announce(Range samples) const override {
    whole_->announce({std::min(samples.begin, size_), std::min(samples.end, size_)});
  }

 private:
  std::unique_ptr<Source> whole_;
  std::uint64_t size_;
};

std::unique_ptr<Source> limited(std::unique_ptr<Source> source, const char* key, std::int64_t limit) {
  if (limit < 0) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("data.{} must be 0 (all samples) or more, it is {}", key, limit));
  }
  if (limit == 0) return source;
  return std::make_unique<LimitedSource>(std::move(source), static_cast<std::uint64_t>(limit));
}

// data.path, else where Debian's package has the set, else where `distbelief data get` puts it.
std::string usual_folder(const DataConfig& config) {
  const RemoteSet& set = find_remote_set(config.name);
  if (!config.path.empty()) return config.path;
  std::error_code ignored;  // whatever the reason, it is not to be had there
  return !std::filesystem::exists(set.installed, ignored) && std::filesystem::exists(set.folder, ignored)
             ? set.folder
             : set.installed;
}

DataSet open_mnist(const DataConfig& config, const OptionMap&) {
  return open_idx_folder(
      usual_folder(config), {.classes = 10, .mean = 0.1307F, .deviation = 0.3081F},
      "distbelief data get mnist fetches it; or set data.path to the folder that has MNIST's four IDX files");
}

DataSet open_fashion_mnist(const DataConfig& config, const OptionMap&) {
  return open_idx_folder(usual_folder(config),
                         {.classes = 10,
                          .mean = 0.2860F,
                          .deviation = 0.3530F,
                          .class_names = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal",
                                          "Shirt", "Sneaker", "Bag", "Ankle boot"}},
                         "on Debian: apt-get install dataset-fashion-mnist; elsewhere: distbelief data get "
                         "fashion_mnist; or set "
                         "data.path to the folder that has the four IDX files");
}

DataSet open_synthetic(const DataConfig&, const OptionMap& options) {
  SyntheticImages::Options wanted{.samples = option<std::int64_t>(options, "samples"),
                                  .channels = option<std::int64_t>(options, "channels"),
                                  .height = option<std::int64_t>(options, "height"),
                                  .width = option<std::int64_t>(options, "width"),
                                  .classes = option<std::int64_t>(options, "classes"),
                                  .noise = option<double>(options, "noise")};
  auto train = std::make_unique<SyntheticImages>(Part::kTrain, wanted);
  wanted.samples = option<std::int64_t>(options, "test_samples");
  return {std::move(train), std::make_unique<SyntheticImages>(Part::kTest, wanted)};
}

DataSet open_synthetic_tokens(const DataConfig&, const OptionMap& options) {
  SyntheticTokens::Options wanted{.samples = option<std::int64_t>(options, "samples"),
                                  .length = option<std::int64_t>(options, "length"),
                                  .vocabulary = option<std::int64_t>(options, "vocabulary")};
  auto train = std::make_unique<SyntheticTokens>(Part::kTrain, wanted);
  wanted.samples = option<std::int64_t>(options, "test_samples");
  return {std::move(train), std::make_unique<SyntheticTokens>(Part::kTest, wanted)};
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
                fmt::format("data set 'packed': option '{}' must be 1 or more, it is {}", name, value));
  };
  return open_packed(config.path, {.cache_bytes = positive("cache_mb") * kMegabyte,
                                   .transfer_bytes = positive("transfer_mb") * kMegabyte,
                                   .threads = static_cast<int>(positive("threads"))});
}

DataSet open_synthetic_shapes(const DataConfig&, const OptionMap& options) {
  SyntheticShapes::Options wanted{.samples = option<std::int64_t>(options, "samples"),
                                  .size = option<std::int64_t>(options, "size"),
                                  .noise = option<double>(options, "noise")};
  auto train = std::make_unique<SyntheticShapes>(Part::kTrain, wanted);
  wanted.samples = option<std::int64_t>(options, "test_samples");
  return {std::move(train), std::make_unique<SyntheticShapes>(Part::kTest, wanted)};
}

DataSet open_synthetic_table(const DataConfig&, const OptionMap& options) {
  const std::string target = option<std::string>(options, "target");
  if (target != "class" && target != "value")
    throw Error(ErrorCode::kBadInput,
                fmt::format("option 'target' of synthetic_table must be class or value, it is '{}'", target));
  SyntheticTable::Options wanted{
      .samples = option<std::int64_t>(options, "samples"),
      .numbers = option<std::int64_t>(options, "numbers"),
      .categories = option<std::int64_t>(options, "categories"),
      .noise = option<double>(options, "noise"),
      .target = target == "class" ? SyntheticTable::Target::kClass : SyntheticTable::Target::kValue};
  auto train = std::make_unique<SyntheticTable>(Part::kTrain, wanted);
  wanted.samples = option<std::int64_t>(options, "test_samples");
  return {std::move(train), std::make_unique<SyntheticTable>(Part::kTest, wanted)};
}

DataSet open_synthetic_speech(const DataConfig&, const OptionMap& options) {
  SyntheticSpeech::Options wanted{.samples = option<std::int64_t>(options, "samples"),
                                  .frames = option<std::int64_t>(options, "frames"),
                                  .bands = option<std::int64_t>(options, "bands"),
                                  .symbols = option<std::int64_t>(options, "symbols"),
                                  .noise = option<double>(options, "noise")};
  auto train = std::make_unique<SyntheticSpeech>(Part::kTrain, wanted);
  wanted.samples = option<std::int64_t>(options, "test_samples");
  return {std::move(train), std::make_unique<SyntheticSpeech>(Part::kTest, wanted)};
}

DataSet open_synthetic_logic(const DataConfig&, const OptionMap& options) {
  SyntheticLogic::Options wanted{.samples = option<std::int64_t>(options, "samples"),
                                 .nodes = option<std::int64_t>(options, "nodes")};
  auto train = std::make_unique<SyntheticLogic>(Part::kTrain, wanted);
  wanted.samples = option<std::int64_t>(options, "test_samples");
  return {std::move(train), std::make_unique<SyntheticLogic>(Part::kTest, wanted)};
}

template <const char* kName>
DataSet open_environment(const DataConfig&, const OptionMap& options) {
  return {std::make_unique<FirstStates>(Part::kTrain, kName, option<std::int64_t>(options, "samples")),
          std::make_unique<FirstStates>(Part::kTest, kName, option<std::int64_t>(options, "test_samples"))};
}

std::vector<OptionSpec> environment_options() {
  return {{"samples", std::int64_t{3'200},
           "places of environments that an epoch goes through, a batch at a time"},
          {"test_samples", std::int64_t{100}, "episodes of a validation"}};
}

constexpr char kCartPole[] = "cartpole";
constexpr char kGridWorld[] = "grid_world";

std::vector<DataSetEntry> make_table() {
  const SyntheticImages::Options images;
  const SyntheticTokens::Options tokens;
  return {
      {"mnist", "handwritten digits, 60,000 + 10,000 grey images of 28 x 28, 10 classes", {}, open_mnist},
      {"fashion_mnist",
       "articles of clothing, 60,000 + 10,000 grey images of 28 x 28, 10 classes",
       {},
       open_fashion_mnist},
      {"synthetic",
       "generated images: a smooth pattern for each class, and noise; no files",
       {{"samples", images.samples, "training images"},
        {"test_samples", std::int64_t{10'000}, "test images"},
        {"channels", images.channels, "of an image"},
        {"height", images.height, "pixels"},
        {"width", images.width, "pixels"},
        {"classes", images.classes, "how many"},
        {"noise", images.noise, "0 to 1: the most a pixel is changed, as a share of its range"}},
       open_synthetic},
      {"synthetic_tokens",
       "generated sequences of tokens that a model can learn to continue; no files",
       {{"samples", tokens.samples, "training sequences"},
        {"test_samples", std::int64_t{1'000}, "test sequences"},
        {"length", tokens.length, "tokens in a sequence"},
        {"vocabulary", tokens.vocabulary, "how many different tokens"}},
       open_synthetic_tokens},
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
        {"threads", std::int64_t{2}, "of a worker, that read and decompress ahead"}},
       open_packed_set},
      {"synthetic_shapes",
       "generated images of discs, squares and triangles with the class of every pixel; no files",
       {{"samples", std::int64_t{10'000}, "training images"},
        {"test_samples", std::int64_t{1'000}, "test images"},
        {"size", std::int64_t{32}, "pixels of each side"},
        {"noise", 0.25, "0 to 1: the most a pixel is changed, as a share of its range"}},
       open_synthetic_shapes},
      {"synthetic_table",
       "generated rows of numbers and a category, with a risk to predict; no files",
       {{"samples", std::int64_t{20'000}, "training rows"},
        {"test_samples", std::int64_t{5'000}, "test rows"},
        {"numbers", std::int64_t{8}, "columns of numbers"},
        {"categories", std::int64_t{8}, "columns of 0 and 1, of which one is 1"},
        {"noise", 0.3, "the most that the risk is changed"},
        {"target", std::string("class"), "class: whether the risk is above 0; value: the risk"}},
       open_synthetic_table},
      {"synthetic_speech",
       "generated frames in which symbols are said one after another, without saying when; no files",
       {{"samples", std::int64_t{4'000}, "training samples"},
        {"test_samples", std::int64_t{500}, "test samples"},
        {"frames", std::int64_t{48}, "of a sample"},
        {"bands", std::int64_t{8}, "numbers of a frame"},
        {"symbols", std::int64_t{6}, "how many different ones"},
        {"noise", 0.3, "the most that a number is changed"}},
       open_synthetic_speech},
      {"synthetic_logic",
       "generated logical formulas as trees, with their value; no files",
       {{"samples", std::int64_t{4'000}, "training formulas"},
        {"test_samples", std::int64_t{1'000}, "test formulas"},
        {"nodes", std::int64_t{15}, "of the largest"}},
       open_synthetic_logic},
      {kCartPole, "an environment: a pole on a cart, balanced by pushing left or right; for actor_critic",
       environment_options(), open_environment<kCartPole>},
      {kGridWorld, "an environment: fields, four directions and a goal; for actor_critic",
       environment_options(), open_environment<kGridWorld>},
      {"s_expressions",
       "trees of text files: lines of a label and an s-expression, in train.sexp and test.sexp of data.path",
       {},
       open_s_expressions},
  };
}

// What every data set understands.
std::vector<DataSetEntry> with_cache(std::vector<DataSetEntry> table) {
  for (DataSetEntry& entry : table)
    if (entry.name != "packed")
      entry.options.push_back(
          {"cache", std::string(), "folder that keeps samples as packed slices; empty: none"});
  return table;
}

const DataSetEntry& find_data_set(const std::string& name) {
  std::vector<std::string> names;
  for (const DataSetEntry& entry : data_sets()) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  const std::string near = nearest(name, names);
  throw Error(ErrorCode::kBadInput, fmt::format("there is no data set '{}'{}; known are {}", name,
                                                near.empty() ? "" : fmt::format(", did you mean '{}'?", near),
                                                fmt::join(names, ", ")));
}

}  // namespace

const std::vector<DataSetEntry>& data_sets() {
  static const std::vector<DataSetEntry> table = with_cache(make_table());
  return table;
}

DataSet open_data_set(const DataConfig& config) {
  const DataSetEntry& entry = find_data_set(config.name);
  const OptionMap options =
      resolve_options(fmt::format("data set '{}'", entry.name), entry.options, config.options);
  DataSet set = entry.open(config, options);
  if (!config.augment.empty()) require_augmentable(set.train->spec());
  set.train = limited(std::move(set.train), "train_limit", config.train_limit);
  set.test = limited(std::move(set.test), "test_limit", config.test_limit);
  if (!options.contains("cache") || option<std::string>(options, "cache").empty()) return set;
  return cached(std::move(set), {.folder = option<std::string>(options, "cache"),
                                 .name = config.name,
                                 .path = config.path,
                                 .options = options});
}

}  // namespace distbelief::data
