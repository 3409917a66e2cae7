#include "distbelief/data/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "distbelief/base/error.h"

namespace distbelief::data {
namespace {

using ::testing::IsSubstring;

std::string failure(ErrorCode code, const DataConfig& config) {
  try {
    open_data_set(config);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

DataConfig named(const std::string& name) {
  DataConfig config;
  config.name = name;
  return config;
}

TEST(DataRegistry, KnowsItsDataSets) {
  std::vector<std::string> names;
  for (const DataSetEntry& entry : data_sets()) {
    names.push_back(entry.name);
    EXPECT_FALSE(entry.description.empty());
    for (const OptionSpec& option : entry.options) EXPECT_FALSE(option.help.empty()) << option.name;
  }
  for (const char* name :
       {"mnist", "fashion_mnist", "synthetic", "synthetic_tokens", "cifar10", "cifar100", "image_folder",
        "webdataset", "csv", "text", "packed", "synthetic_shapes", "synthetic_table", "synthetic_speech",
        "synthetic_logic", "synthetic_clicks", "cartpole", "grid_world", "s_expressions"})
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
}

TEST(DataRegistry, OpensGeneratedImagesWithOptions) {
  DataConfig config = named("synthetic");
  config.options = {{"samples", std::int64_t{500}}, {"test_samples", std::int64_t{50}},
                    {"channels", std::int64_t{3}},  {"height", std::int64_t{32}},
                    {"width", std::int64_t{16}},    {"classes", std::int64_t{7}},
                    {"noise", std::int64_t{0}}};
  const DataSet set = open_data_set(config);
  EXPECT_EQ(set.train->size(), 500U);
  EXPECT_EQ(set.test->size(), 50U);
  EXPECT_EQ(set.train->spec().input_shape, (Shape{3, 32, 16}));
  EXPECT_EQ(set.test->spec().classes, 7);
}

TEST(DataRegistry, OpensTablesOfClassesAndOfValues) {
  DataConfig config = named("synthetic_table");
  const DataSet classes = open_data_set(config);
  EXPECT_EQ(classes.train->spec().input_shape, Shape{16});
  EXPECT_EQ(classes.train->spec().classes, 2);
  config.options = {{"target", "value"}, {"numbers", std::int64_t{4}}};
  const DataSet values = open_data_set(config);
  EXPECT_EQ(values.test->spec().input_shape, Shape{12});
  EXPECT_EQ(values.test->spec().classes, 0);
  EXPECT_EQ(values.test->spec().target_type, ElementType::kFloat32);
  config.options = {{"target", "both"}};
  EXPECT_PRED_FORMAT2(IsSubstring, "class or value", failure(ErrorCode::kBadInput, config));
}

TEST(DataRegistry, OpensGeneratedTokensWithOptions) {
  DataConfig config = named("synthetic_tokens");
  config.options = {{"length", std::int64_t{12}}, {"vocabulary", std::int64_t{99}}};
  const DataSet set = open_data_set(config);
  EXPECT_EQ(set.train->spec().input_shape, Shape{12});
  EXPECT_EQ(set.test->spec().classes, 99);
  EXPECT_EQ(set.test->size(), 1000U);
}

TEST(DataRegistry, AppliesLimits) {
  DataConfig config = named("synthetic");
  config.train_limit = 123;
  config.test_limit = 1'000'000;
  const DataSet set = open_data_set(config);
  EXPECT_EQ(set.train->size(), 123U);
  EXPECT_EQ(set.test->size(), 10'000U);
  EXPECT_EQ(set.train->spec().input_shape, (Shape{1, 28, 28}));

  const DataSet whole = open_data_set(named("synthetic"));
  std::vector<std::byte> limited_image(784);
  std::vector<std::byte> whole_image(784);
  std::int64_t label = -1;
  set.train->read(122, limited_image.data(), &label);
  EXPECT_EQ(label, 2);
  whole.train->read(122, whole_image.data(), &label);
  EXPECT_EQ(limited_image, whole_image);

  config.train_limit = -1;
  EXPECT_PRED_FORMAT2(IsSubstring, "data.train_limit", failure(ErrorCode::kBadInput, config));
}

TEST(DataRegistry, RefusesToAugmentTokens) {
  DataConfig config = named("synthetic_tokens");
  config.augment = {"flip"};
  EXPECT_PRED_FORMAT2(IsSubstring, "data.augment needs images", failure(ErrorCode::kBadInput, config));
  config.name = "synthetic";
  EXPECT_NO_THROW(open_data_set(config));
}

TEST(DataRegistry, NamesTheNearestOfAnUnknownNameOrOption) {
  const std::string unknown_name = failure(ErrorCode::kBadInput, named("fashon_mnist"));
  EXPECT_PRED_FORMAT2(IsSubstring, "'fashon_mnist', did you mean 'fashion_mnist'?", unknown_name);
  EXPECT_PRED_FORMAT2(IsSubstring, "did you mean 'fashion_mnist'?",
                      failure(ErrorCode::kBadInput, named("fashion")));
  DataConfig config = named("synthetic");
  config.options = {{"sampels", std::int64_t{5}}};
  const std::string unknown_option = failure(ErrorCode::kBadInput, config);
  EXPECT_PRED_FORMAT2(IsSubstring, "sampels", unknown_option);
  EXPECT_PRED_FORMAT2(IsSubstring, "'samples'", unknown_option);
}

TEST(DataRegistry, SaysWhereToGetMissingFiles) {
  DataConfig config = named("fashion_mnist");
  config.path = ::testing::TempDir() + "distbelief_no_such_folder";
  const std::string fashion = failure(ErrorCode::kUnavailable, config);
  EXPECT_PRED_FORMAT2(IsSubstring, config.path, fashion);
  EXPECT_PRED_FORMAT2(IsSubstring, "apt-get install dataset-fashion-mnist", fashion);
  config.name = "mnist";
  const std::string digits = failure(ErrorCode::kUnavailable, config);
  EXPECT_PRED_FORMAT2(IsSubstring, "the folder '" + config.path + "' is missing", digits);
  EXPECT_PRED_FORMAT2(IsSubstring, "set data.path", digits);
  config.name = "cifar100";
  const std::string pictures = failure(ErrorCode::kUnavailable, config);
  EXPECT_PRED_FORMAT2(IsSubstring, "the folder '" + config.path + "' is missing", pictures);
  EXPECT_PRED_FORMAT2(IsSubstring, "cifar-100-binary", pictures);
}

TEST(DataRegistry, OpensInstalledFashionMnist) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist"))
    GTEST_SKIP() << "dataset-fashion-mnist is absent";
  const DataSet set = open_data_set(named("fashion_mnist"));
  EXPECT_EQ(set.train->size(), 60'000U);
  EXPECT_EQ(set.test->size(), 10'000U);
  EXPECT_EQ(set.train->spec().input_shape, (Shape{1, 28, 28}));
  std::vector<std::byte> image(784);
  std::int64_t label = -1;
  set.train->read(0, image.data(), &label);
  EXPECT_EQ(label, 9);
  set.test->read(9'999, image.data(), &label);
  EXPECT_EQ(label, 5);
}

}  // namespace
}  // namespace distbelief::data
