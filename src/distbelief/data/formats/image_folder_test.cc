#include "distbelief/data/formats/image_folder.h"

#include <gtest/gtest.h>

#include "distbelief/data/pipeline/split.h"
#include "distbelief/data/slices/pack.h"
#include "distbelief/testing/image_set_fixture.h"
#include "distbelief/testing/refusal.h"
#include "distbelief/testing/written_images.h"

namespace distbelief::data {
namespace {

using ::testing::IsSubstring;

class ImageFolder : public testing::ImageSetFixture {
 protected:
  ImageFolder() : testing::ImageSetFixture("image_folder") {}
  void image(const std::string& name, std::uint32_t value) {
    const std::filesystem::path path = folder_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    const testing::Drawing plain = testing::draw(8, 8, [=](auto, auto, auto) { return value; });
    write_text(path, has_image_ending(path) && path.extension() != ".png" ? testing::to_jpeg(plain)
                                                                          : testing::to_png(plain));
  }
};

TEST_F(ImageFolder, ReadsPartsAndClassesInOrder) {
  image("train/dog/b.PNG", 30);
  image("train/dog/a.jpeg", 20);
  image("train/cat/z.jpg", 10);
  image("test/dog/x.png", 40);
  write_text(folder_.path() / "train/dog/notes.txt", "no image");
  write_text(folder_.path() / "train/.hidden", "");
  const DataSet set = open();
  EXPECT_EQ(set.train->spec().input_shape, (Shape{3, 4, 4}));
  EXPECT_EQ(set.train->spec().classes, 2);
  ASSERT_EQ(set.train->size(), 3U);
  EXPECT_EQ(sample(*set.train, 0), (std::pair<int, std::int64_t>{10, 0}));
  EXPECT_EQ(sample(*set.train, 1), (std::pair<int, std::int64_t>{20, 1}));
  EXPECT_EQ(sample(*set.train, 2), (std::pair<int, std::int64_t>{30, 1}));
  ASSERT_EQ(set.test->size(), 1U);
  EXPECT_EQ(sample(*set.test, 0), (std::pair<int, std::int64_t>{40, 1})) << "a class keeps its number";
}

TEST_F(ImageFolder, SaysThatImagesToTestOnHaveNoClasses) {
  for (const char* name : {"train/cat/1.png", "train/dog/1.png", "test/1.png", "test/2.png"}) image(name, 50);
  const std::string told = testing::refusal([&] { open(); });
  EXPECT_PRED_FORMAT2(IsSubstring, "test' has no folders of images; it wants one for each class", told);
  EXPECT_PRED_FORMAT2(IsSubstring, "cat, dog", told);
}

TEST_F(ImageFolder, TakesAFolderOfImagesThatIsCalledTrainForAClass) {
  for (const char* name : {"train/1.png", "train/2.png", "boat/1.png", "boat/2.png"}) image(name, 50);
  const DataSet set = open({{"held_out", 0.25}});
  EXPECT_EQ(set.train->spec().class_names, (std::vector<std::string>{"boat", "train"}));
  EXPECT_EQ(set.train->size() + set.test->size(), 4U);
  std::filesystem::remove_all(folder_.path() / "train");
  for (const char* name : {"train/a/1.png", "train/b/1.png"}) image(name, 50);
  EXPECT_PRED_FORMAT2(IsSubstring, "train", testing::refusal([&] { open(); }))
      << "what stands beside it would be left out";
  std::filesystem::remove_all(folder_.path() / "boat");
  EXPECT_EQ(open({{"held_out", 0.5}}).train->spec().class_names, (std::vector<std::string>{"a", "b"}));
}

TEST_F(ImageFolder, ALimitTakesSomeOfEveryClass) {
  for (int i = 0; i < 12; ++i) {
    image(std::string("train/") + "abc"[i / 4] + "/" + std::to_string(i) + ".png", i);
    image(std::string("test/") + "abc"[i / 4] + "/" + std::to_string(i) + ".png", i);
  }
  DataConfig limited = config();
  limited.train_limit = 6;
  limited.test_limit = 3;
  const DataSet set = open_data_set(limited);
  std::vector<std::int64_t> train, test;
  for (std::uint64_t i = 0; i < set.train->size(); ++i) train.push_back(sample(*set.train, i).second);
  for (std::uint64_t i = 0; i < set.test->size(); ++i) test.push_back(sample(*set.test, i).second);
  EXPECT_EQ(train, (std::vector<std::int64_t>{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(test, (std::vector<std::int64_t>{0, 1, 2}));
}

TEST_F(ImageFolder, HoldsOutAShareOfOneFolder) {
  for (int i = 0; i < 10; ++i) image((i % 2 ? "a/" : "b/") + std::to_string(i) + ".png", 100 + i);
  const DataSet set = open({{"held_out", 0.3}}), again = open({{"held_out", 0.3}});
  ASSERT_EQ(set.train->size(), 7U);
  ASSERT_EQ(set.test->size(), 3U);
  std::set<int> seen;
  for (std::uint64_t i = 0; i < 7; ++i) seen.insert(sample(*set.train, i).first);
  for (std::uint64_t i = 0; i < 3; ++i) {
    seen.insert(sample(*set.test, i).first);
    EXPECT_EQ(sample(*set.test, i), sample(*again.test, i));
  }
  EXPECT_EQ(seen.size(), 10U);
}

TEST_F(ImageFolder, NamesTheFileThatCannotBeDecoded) {
  image("train/a/1.jpg", 1);
  image("train/b/2.jpg", 2);
  image("test/a/1.jpg", 1);
  const DataSet set = open();
  std::filesystem::resize_file(folder_.path() / "train/b/2.jpg", 300);
  EXPECT_PRED_FORMAT2(IsSubstring, "train/b/2.jpg', byte ", testing::refusal([&] { sample(*set.train, 1); }));
  write_text(folder_.path() / "train/b/2.jpg", "nonsense");
  EXPECT_PRED_FORMAT2(IsSubstring, "neither JPEG nor PNG", testing::refusal([&] { sample(*set.train, 1); }));
}

TEST_F(ImageFolder, IsCountedWithoutLookingIntoFiles) {
  for (const char* name : {"train/a/1.jpg", "train/b/2.jpg", "train/b/3.jpg", "test/a/1.jpg"}) image(name, 1);
  const DataSet set = open();
  std::filesystem::remove_all(folder_.path() / "train");
  EXPECT_EQ(class_balance(*set.train), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(read_split_columns(*set.train, parse_split("stratified")).labels,
            (std::vector<std::int64_t>{0, 1, 1}));
  EXPECT_THROW(read_split_columns(*set.train, parse_split("feature:0")), Error)
      << "who wants pixels reads them";
}

TEST_F(ImageFolder, RefusesFoldersThatMakeNoClasses) {
  EXPECT_PRED_FORMAT2(IsSubstring, "two or more classes, found 0", testing::refusal([&] { open(); }));
  image("a/1.jpg", 1);
  EXPECT_PRED_FORMAT2(IsSubstring, "found 1", testing::refusal([&] { open(); }));
  std::filesystem::create_directory(folder_.path() / "b");
  EXPECT_PRED_FORMAT2(IsSubstring, "/b' has no .jpg", testing::refusal([&] { open(); }));
  image("b/inner/1.jpg", 1);
  EXPECT_PRED_FORMAT2(IsSubstring, "/b' has no .jpg, .jpeg or .png file but 1 folder, such as 'inner'",
                      testing::refusal([&] { open(); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "move all images of class 'b' up into '",
                      testing::refusal([&] { open(); }));
}

TEST_F(ImageFolder, RefusesATestClassThatTrainingHasNot) {
  for (const char* name : {"train/a/1.png", "train/b/1.png", "val/c/1.png"}) image(name, 1);
  EXPECT_PRED_FORMAT2(IsSubstring, "class 'c'", testing::refusal([&] { open(); }));
}

}  // namespace
}  // namespace distbelief::data
