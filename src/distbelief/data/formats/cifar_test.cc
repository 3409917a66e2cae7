#include "distbelief/data/formats/cifar.h"

#include <gtest/gtest.h>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/testing/refusal.h"

namespace distbelief::data {
namespace {

using ::testing::IsSubstring;

// A record whose pixels all have the value `fill`.
std::string record(std::initializer_list<int> labels, int fill) {
  std::string bytes;
  for (const int label : labels) bytes += static_cast<char>(label);
  return bytes + std::string(3072, static_cast<char>(fill));
}

class Cifar : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& name, const std::string& content) {
    write_text(folder_.path() / name, content);
    return folder_.path() / name;
  }
  DataConfig config(const std::string& name) {
    DataConfig config;
    config.name = name;
    config.path = folder_.path().string();
    return config;
  }
  ScratchFolder folder_;
};

TEST_F(Cifar, ReadsRecordsOverSeveralFiles) {
  const CifarSource source({file("a", record({3}, 7) + record({9}, 8)), file("b", record({0}, 200))},
                           {.label_bytes = 1, .label_at = 0, .classes = 10});
  ASSERT_EQ(source.size(), 3U);
  EXPECT_EQ(source.spec().input_shape, (Shape{3, 32, 32}));
  std::vector<std::uint8_t> image(3072);
  std::int64_t label = -1;
  source.read(1, image.data(), &label);
  EXPECT_EQ(label, 9);
  EXPECT_EQ(image, std::vector<std::uint8_t>(3072, 8));
  source.read(2, image.data(), &label);
  EXPECT_EQ(label, 0);
  EXPECT_EQ(image.front(), 200);
}

TEST_F(Cifar, OpensBothSetsByName) {
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                           "data_batch_5.bin", "test_batch.bin"})
    file(name, record({1}, 1) + record({2}, 2));
  EXPECT_TRUE(has_cifar10(folder_.path()));
  EXPECT_FALSE(has_cifar100(folder_.path()));
  EXPECT_EQ(open_data_set(config("cifar10")).train->size(), 10U);

  file("train.bin", record({19, 99}, 1));
  file("test.bin", record({4, 5}, 1));
  std::vector<std::uint8_t> image(3072);
  std::int64_t label = -1;
  DataConfig wanted = config("cifar100");
  open_data_set(wanted).train->read(0, image.data(), &label);
  EXPECT_EQ(label, 99);
  wanted.options["labels"] = std::string("coarse");
  const DataSet coarse = open_data_set(wanted);
  coarse.train->read(0, image.data(), &label);
  EXPECT_EQ(label, 19);
  EXPECT_EQ(coarse.train->spec().classes, 20);
}

TEST_F(Cifar, NamesFileAndOffsetOfWhatCannotBe) {
  const CifarFormat format{.label_bytes = 1, .label_at = 0, .classes = 10};
  const std::string cut =
      testing::refusal([&] { CifarSource({file("cut", record({1}, 0) + "abc")}, format); });
  EXPECT_PRED_FORMAT2(IsSubstring, "cut', byte 3073", cut);
  const std::string label =
      testing::refusal([&] { CifarSource({file("label", record({1}, 0) + record({10}, 0))}, format); });
  EXPECT_PRED_FORMAT2(IsSubstring, "label', byte 3073: label 10 is outside 0 to 9", label);
  EXPECT_NE(testing::refusal([&] { CifarSource({file("empty", "")}, format); }), "accepted");
}

TEST_F(Cifar, SaysWhichFileIsMissing) {
  try {
    open_data_set(config("cifar10"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_PRED_FORMAT2(IsSubstring, "data_batch_1.bin", error.what());
  }
}

TEST_F(Cifar, NoticesAFileThatShrinksLater) {
  const auto path = file("shrinks", record({1}, 1) + record({2}, 2));
  const CifarSource source({path}, {.label_bytes = 1, .label_at = 0, .classes = 10});
  std::filesystem::resize_file(path, 3073 + 10);
  std::vector<std::uint8_t> image(3072);
  std::int64_t label = -1;
  EXPECT_PRED_FORMAT2(IsSubstring, "byte 3083: the file ends here",
                      testing::refusal([&] { source.read(1, image.data(), &label); }));
}

}  // namespace
}  // namespace distbelief::data
