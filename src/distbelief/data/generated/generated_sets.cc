#include "distbelief/data/generated/generated_sets.h"

#include <fmt/format.h>

#include "distbelief/base/error.h"
#include "distbelief/data/formats/tree.h"
#include "distbelief/data/generated/environment.h"
#include "distbelief/data/generated/synthetic.h"
#include "distbelief/data/generated/synthetic_clicks.h"
#include "distbelief/data/generated/synthetic_shapes.h"
#include "distbelief/data/generated/synthetic_speech.h"
#include "distbelief/data/generated/synthetic_table.h"
#include "distbelief/data/learnt.h"

namespace distbelief::data {
namespace {

// Opens both parts with the sizes that the options give.
template <typename Set>
DataSet both_parts(typename Set::Options wanted, const OptionMap& options) {
  wanted.samples = option<std::int64_t>(options, "samples");
  auto train = std::make_unique<Set>(Part::kTrain, wanted);
  wanted.samples = option<std::int64_t>(options, "test_samples");
  return {std::move(train), std::make_unique<Set>(Part::kTest, wanted)};
}

DataSet open_synthetic(const DataConfig&, const OptionMap& options) {
  const SyntheticImages::Options wanted{.channels = option<std::int64_t>(options, "channels"),
                                        .height = option<std::int64_t>(options, "height"),
                                        .width = option<std::int64_t>(options, "width"),
                                        .classes = option<std::int64_t>(options, "classes"),
                                        .noise = option<double>(options, "noise")};
  return both_parts<SyntheticImages>(wanted, options);
}

DataSet open_synthetic_tokens(const DataConfig&, const OptionMap& options) {
  const SyntheticTokens::Options wanted{.length = option<std::int64_t>(options, "length"),
                                        .vocabulary = option<std::int64_t>(options, "vocabulary")};
  return both_parts<SyntheticTokens>(wanted, options);
}

DataSet open_synthetic_shapes(const DataConfig&, const OptionMap& options) {
  const SyntheticShapes::Options wanted{.size = option<std::int64_t>(options, "size"),
                                        .noise = option<double>(options, "noise")};
  return both_parts<SyntheticShapes>(wanted, options);
}

DataSet open_synthetic_table(const DataConfig&, const OptionMap& options) {
  const std::string target = option<std::string>(options, "target");
  if (target != "class" && target != "value")
    throw Error(ErrorCode::kBadInput,
                fmt::format("option 'target' of synthetic_table must be class or value, it is '{}'", target),
                {.key = "data.target"});
  const SyntheticTable::Options wanted{
      .numbers = option<std::int64_t>(options, "numbers"),
      .categories = option<std::int64_t>(options, "categories"),
      .noise = option<double>(options, "noise"),
      .target = target == "class" ? SyntheticTable::Target::kClass : SyntheticTable::Target::kValue};
  return both_parts<SyntheticTable>(wanted, options);
}

DataSet open_synthetic_clicks(const DataConfig&, const OptionMap& options) {
  const SyntheticClicks::Options wanted{.fields = option<std::int64_t>(options, "fields"),
                                        .ids = option<std::int64_t>(options, "ids"),
                                        .noise = option<double>(options, "noise")};
  return both_parts<SyntheticClicks>(wanted, options);
}

DataSet open_synthetic_speech(const DataConfig&, const OptionMap& options) {
  const SyntheticSpeech::Options wanted{.frames = option<std::int64_t>(options, "frames"),
                                        .bands = option<std::int64_t>(options, "bands"),
                                        .symbols = option<std::int64_t>(options, "symbols"),
                                        .noise = option<double>(options, "noise")};
  return both_parts<SyntheticSpeech>(wanted, options);
}

DataSet open_synthetic_logic(const DataConfig&, const OptionMap& options) {
  const SyntheticLogic::Options wanted{.nodes = option<std::int64_t>(options, "nodes")};
  DataSet set = both_parts<SyntheticLogic>(wanted, options);
  set.learnt = std::make_shared<const Learnt>(Learnt{.tree_tokens = SyntheticLogic::tokens()});
  return set;
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

}  // namespace

std::vector<DataSetEntry> generated_entries() {
  const SyntheticImages::Options images;
  const SyntheticTokens::Options tokens;
  return {
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
      {"synthetic_clicks",
       "generated ids of what was shown to whom, and whether it was clicked; no files",
       {{"samples", std::int64_t{1'000'000}, "training samples"},
        {"test_samples", std::int64_t{20'000}, "test samples"},
        {"fields", std::int64_t{8}, "ids of a sample"},
        {"ids", std::int64_t{100'000'000}, "possible ids of all fields together"},
        {"noise", 0.5, "the most that the sum behind a click is changed"}},
       open_synthetic_clicks},
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
  };
}

}  // namespace distbelief::data
