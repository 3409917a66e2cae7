#include "distbelief/report/picture.h"

#include <gtest/gtest.h>
#include <png.h>

#include <set>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"

namespace distbelief::report {
namespace {

TEST(Picture, PlanesAreLaidSideBySide) {
  const std::vector<std::uint8_t> planes{1, 2, 3, 4, 10, 20, 30, 40, 100, 110, 120, 130};
  const Picture picture = picture_of({.channels = 3, .height = 2, .width = 2, .pixels = planes}, 96);
  EXPECT_EQ(picture.bytes, (std::vector<std::uint8_t>{1, 10, 100, 2, 20, 110, 3, 30, 120, 4, 40, 130}));
}

TEST(Picture, LargeImagesBecomeSmaller) {
  const std::vector<std::uint8_t> pixels(200 * 300, 7);
  const Picture small = picture_of({.channels = 1, .height = 200, .width = 300, .pixels = pixels}, 96);
  EXPECT_EQ(small.width, 75);
  EXPECT_EQ(small.height, 50);
  EXPECT_EQ(small.bytes, std::vector<std::uint8_t>(75 * 50, 7));
}

TEST(Base64, IsThatOfTheStandard) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

TEST(ClassColours, AreThoseOfThePascalDevkitAndDiffer) {
  EXPECT_EQ(class_colour(0), 0x000000U);
  EXPECT_EQ(class_colour(1), 0x800000U);
  EXPECT_EQ(class_colour(7), 0x808080U);
  EXPECT_EQ(class_colour(8), 0x400000U);
  EXPECT_EQ(class_colour(15), 0xc08080U);
  std::set<std::uint32_t> all;
  for (int i = 0; i < 256; ++i) all.insert(class_colour(i));
  EXPECT_EQ(all.size(), 256U);
}

TEST(ClassColours, FillAPictureRowByRow) {
  const std::vector<std::int64_t> classes{0, 1, 2, 0, 0, 15};
  const Picture picture = picture_of(ClassImage{.height = 2, .width = 3, .classes = classes});
  EXPECT_EQ(picture.width, 3);
  EXPECT_EQ(picture.bytes, (std::vector<std::uint8_t>{0, 0, 0, 128, 0, 0, 0, 128, 0,  //
                                                      0, 0, 0, 0, 0, 0, 192, 128, 128}));
}

TEST(ContactSheet, PutsPicturesInRowsWithALineBetween) {
  const Picture dark{.width = 2, .height = 1, .channels = 1, .bytes = {1, 2}};
  const Picture light{.width = 2, .height = 1, .channels = 1, .bytes = {8, 9}};
  const Picture sheet = contact_sheet({dark, light, dark}, 2, 1);
  EXPECT_EQ(sheet.width, 5);
  EXPECT_EQ(sheet.height, 3);
  EXPECT_EQ(sheet.bytes,
            (std::vector<std::uint8_t>{1, 2, 255, 8, 9, 255, 255, 255, 255, 255, 1, 2, 255, 255, 255}));
}

TEST(PngFile, IsReadBackByLibpngWithTheSamePixels) {
  const ScratchFolder folder;
  const auto path = folder.path() / "a.png";
  const Picture written{.width = 3,
                        .height = 2,
                        .channels = 3,
                        .bytes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 255}};
  write_png(path, written);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  ASSERT_NE(png_image_begin_read_from_file(&image, path.c_str()), 0) << image.message;
  image.format = PNG_FORMAT_RGB;
  std::vector<std::uint8_t> read(PNG_IMAGE_SIZE(image));
  ASSERT_NE(png_image_finish_read(&image, nullptr, read.data(), 0, nullptr), 0) << image.message;
  EXPECT_EQ(read, written.bytes);
}

TEST(PngFile, ThatCannotBeWrittenIsAnErrorWithItsName) {
  try {
    write_png("/nowhere/at/all.png", {.width = 1, .height = 1, .channels = 1, .bytes = {0}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("/nowhere/at/all.png"), std::string::npos);
  }
}

}  // namespace
}  // namespace distbelief::report
