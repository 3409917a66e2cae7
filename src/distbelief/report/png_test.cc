#include "distbelief/report/png.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <vector>

namespace distbelief::report {
namespace {

TEST(Png, RowsOfPixelsComeBack) {
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < 3 * 2 * 4; ++i) pixels.push_back(std::uint8_t(10 * i));
  const std::string png = encode_png({.channels = 3, .height = 2, .width = 4, .pixels = pixels}, 96);
  ASSERT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_EQ(png.substr(12, 4), "IHDR");
  EXPECT_EQ(png[19], 4);
  EXPECT_EQ(png[23], 2);
  const std::size_t data = png.find("IDAT");
  std::vector<unsigned char> rows(2 * (1 + 4 * 3));
  uLongf size = rows.size();
  ASSERT_EQ(uncompress(rows.data(), &size, reinterpret_cast<const Bytef*>(png.data()) + data + 4,
                       png.size() - data - 4),
            Z_OK);
  ASSERT_EQ(size, rows.size());
  for (int channel = 0; channel < 3; ++channel)
    EXPECT_EQ(rows[std::size_t(13 + 1 + 2 * 3 + channel)], pixels[std::size_t(channel * 8 + 4 + 2)])
        << "row 1, column 2";
}

TEST(Png, LargeImagesBecomeSmaller) {
  const std::vector<std::uint8_t> pixels(200 * 300, 7);
  const std::string png = encode_png({.channels = 1, .height = 200, .width = 300, .pixels = pixels}, 96);
  EXPECT_EQ(png[19], 75);
  EXPECT_EQ(png[23], 50);
}

TEST(Base64, IsThatOfTheStandard) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

}  // namespace
}  // namespace distbelief::report
