#include "distbelief/data/image/orientation.h"

#include <gtest/gtest.h>

#include "distbelief/data/image/decoder.h"
#include "distbelief/testing/written_images.h"

namespace distbelief::data {
namespace {

std::span<const std::uint8_t> span_of(const std::string& file) {
  return {reinterpret_cast<const std::uint8_t*>(file.data()), file.size()};
}

enum class ByteOrder { kLittle, kBig };

std::string tiff_number(std::uint32_t value, std::size_t width, ByteOrder order) {
  std::string bytes;
  for (std::size_t i = 0; i < width; ++i)
    bytes += char(value >> 8 * (order == ByteOrder::kLittle ? i : width - 1 - i));
  return bytes;
}

// Like the segments of cameras: a directory with another tag before the orientation.
std::string exif_segment(std::uint32_t orientation, ByteOrder order) {
  const auto number = [&](std::uint32_t value, std::size_t width) {
    return tiff_number(value, width, order);
  };
  std::string tiff = order == ByteOrder::kLittle ? "II" : "MM";
  tiff += number(42, 2) + number(8, 4) + number(2, 2);
  tiff += number(0x0100, 2) + number(4, 2) + number(1, 4) + number(640, 4);
  tiff += number(0x0112, 2) + number(3, 2) + number(1, 4) + number(orientation, 2) + number(0, 2);
  const std::string body = std::string("Exif\0\0", 6) + tiff + number(0, 4);
  return "\xFF\xE1" + tiff_number(std::uint32_t(body.size()) + 2, 2, ByteOrder::kBig) + body;
}

std::string with_segment(const std::string& jpeg, const std::string& segment) {
  return jpeg.substr(0, 2) + segment + jpeg.substr(2);
}

// From left to right, then down: 0 1 2 / 3 4 5.
Pixels six() { return {.width = 3, .height = 2, .channels = 1, .bytes = {0, 1, 2, 3, 4, 5}}; }

TEST(Orientation, EveryOneIsTurnedUpright) {
  const std::vector<std::vector<std::uint8_t>> wanted = {
      {0, 1, 2, 3, 4, 5}, {2, 1, 0, 5, 4, 3}, {5, 4, 3, 2, 1, 0}, {3, 4, 5, 0, 1, 2},
      {0, 3, 1, 4, 2, 5}, {3, 0, 4, 1, 5, 2}, {5, 2, 4, 1, 3, 0}, {2, 5, 1, 4, 0, 3}};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    Pixels picture = six();
    std::vector<std::uint8_t> space;
    turn_upright(Orientation(i + 1), picture, space);
    EXPECT_EQ(picture.bytes, wanted[i]) << i + 1;
    EXPECT_EQ(picture.width, i < 4 ? 3U : 2U) << i + 1;
    EXPECT_EQ(picture.height, i < 4 ? 2U : 3U) << i + 1;
  }
}

TEST(Orientation, IsReadInBothByteOrders) {
  const std::string jpeg = testing::to_jpeg(testing::draw(8, 8, [](auto, auto, auto) { return 90U; }));
  EXPECT_EQ(exif_orientation(span_of(jpeg)), Orientation::kUpright);
  for (const ByteOrder order : {ByteOrder::kLittle, ByteOrder::kBig})
    for (std::uint32_t i = 1; i <= 8; ++i)
      EXPECT_EQ(exif_orientation(span_of(with_segment(jpeg, exif_segment(i, order)))), Orientation(i));
}

TEST(Orientation, NonsenseIsUpright) {
  const std::string jpeg = testing::to_jpeg(testing::draw(8, 8, [](auto, auto, auto) { return 90U; }));
  for (const std::uint32_t number : {0U, 9U, 65'535U})
    EXPECT_EQ(exif_orientation(span_of(with_segment(jpeg, exif_segment(number, ByteOrder::kBig)))),
              Orientation::kUpright);
  const std::string whole = with_segment(jpeg, exif_segment(6, ByteOrder::kLittle));
  const std::size_t needed = 2 + 4 + 6 + 8 + 2 + 12 + 10;  // up to the orientation number
  for (std::size_t size = 0; size < needed; ++size)
    EXPECT_EQ(exif_orientation(span_of(whole).first(size)), Orientation::kUpright) << size;
  std::string far = whole;
  far[16] = char(0xFF);  // the directory begins beyond the segment
  far[19] = char(0xFF);
  EXPECT_EQ(exif_orientation(span_of(far)), Orientation::kUpright);
}

TEST(Orientation, DecodedPhotographsStandUpright) {
  // Upright it is dark above and bright below; it is stored such that it must be turned right.
  const std::string stored =
      testing::to_jpeg(testing::draw(32, 16, [](auto x, auto, auto) { return x < 16 ? 20U : 220U; }));
  const std::string file = with_segment(stored, exif_segment(6, ByteOrder::kLittle));
  EXPECT_EQ(ImageDecoder().size(span_of(file)).width, 16U);
  EXPECT_EQ(ImageDecoder().size(span_of(file)).height, 32U);
  std::vector<std::uint8_t> planes(16 * 16);
  ImageDecoder().decode(span_of(file), {.size = {.resize = 0, .crop = 16}, .channels = 1}, planes.data());
  EXPECT_NEAR(planes[0], 20, 6);
  EXPECT_NEAR(planes[15], 20, 6);
  EXPECT_NEAR(planes[15 * 16], 220, 6);
  EXPECT_NEAR(planes[15 * 16 + 15], 220, 6);
}

}  // namespace
}  // namespace distbelief::data
