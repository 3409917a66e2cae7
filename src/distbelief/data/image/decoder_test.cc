#include "distbelief/data/image/decoder.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zlib.h>

#include <cmath>

#include "distbelief/testing/refusal.h"
#include "distbelief/testing/written_images.h"

namespace distbelief::data {
namespace {

using ::testing::IsSubstring;

std::span<const std::uint8_t> bytes_of(const std::string& file) {
  return {reinterpret_cast<const std::uint8_t*>(file.data()), file.size()};
}

ImageSettings settings(std::uint32_t resize, std::uint32_t crop, std::uint32_t channels = 3) {
  return {.size = {.resize = resize, .crop = crop}, .channels = channels};
}

std::vector<std::uint8_t> decoded(const std::string& file, const ImageSettings& how) {
  std::vector<std::uint8_t> planes(std::size_t{how.channels} * how.size.crop * how.size.crop);
  ImageDecoder().decode(bytes_of(file), how, planes.data());
  return planes;
}

// Returns the fault of the image, or "accepted"; `offset` receives its place.
std::string fault(const std::string& file, const ImageSettings& how, std::uint64_t* offset = nullptr) {
  try {
    decoded(file, how);
  } catch (const ImageFault& fault) {
    if (offset != nullptr) *offset = fault.offset();
    return fault.what();
  }
  return "accepted";
}

// A smooth picture, which JPEG changes little.
testing::Drawing ramp(std::uint32_t width, std::uint32_t height) {
  return testing::draw(width, height, [=](std::uint32_t x, std::uint32_t y, std::uint32_t c) {
    return c == 0 ? x * 255 / width : c == 1 ? y * 255 / height : 128;
  });
}

TEST(ImageDecoder, CutsPngExactlyFromTheMiddle) {
  const testing::Drawing drawing =
      testing::draw(10, 8, [](auto x, auto y, auto c) { return x * 10 + y + c * 100; });
  const auto planes = decoded(testing::to_png(drawing), settings(0, 4));
  for (std::uint32_t c = 0; c < 3; ++c)
    for (std::uint32_t y = 0; y < 4; ++y)
      for (std::uint32_t x = 0; x < 4; ++x)
        EXPECT_EQ(planes[c * 16 + y * 4 + x], static_cast<std::uint8_t>((x + 3) * 10 + (y + 2) + c * 100));
}

TEST(ImageDecoder, TakesEveryKindOfPng) {
  const std::vector<std::uint8_t> grey(16, 77);
  EXPECT_EQ(decoded(testing::to_png(4, 4, PNG_FORMAT_GRAY, grey.data()), settings(0, 4)),
            std::vector<std::uint8_t>(48, 77));
  EXPECT_EQ(decoded(testing::to_png(4, 4, PNG_FORMAT_GRAY, grey.data()), settings(0, 4, 1)), grey);
  const testing::Drawing green = testing::draw(4, 4, [](auto, auto, auto c) { return c == 1 ? 200U : 0U; });
  EXPECT_EQ(decoded(testing::to_png(green), settings(0, 4, 1))[0], grey_of(0, 200, 0));
  std::vector<std::uint8_t> with_alpha;
  for (int i = 0; i < 16; ++i) with_alpha.insert(with_alpha.end(), {10, 20, 30, 0});
  EXPECT_EQ(decoded(testing::to_png(4, 4, PNG_FORMAT_RGBA, with_alpha.data()), settings(0, 4))[16], 20);
}

TEST(ImageDecoder, TakesEveryKindOfJpeg) {
  const testing::Drawing drawing = ramp(64, 64);
  for (const testing::JpegKind kind :
       {testing::JpegKind::kBaseline, testing::JpegKind::kProgressive, testing::JpegKind::kCmyk}) {
    const auto planes = decoded(testing::to_jpeg(drawing, kind), settings(0, 64));
    for (std::uint32_t at : {0U, 30U, 63U}) {
      EXPECT_NEAR(planes[at * 64 + at], at * 255 / 64, 8);
      EXPECT_NEAR(planes[4096 + at * 64 + at], at * 255 / 64, 8);
      EXPECT_NEAR(planes[8192 + at * 64 + at], 128, 8);
    }
  }
  EXPECT_NEAR(decoded(testing::to_jpeg(drawing), settings(0, 64, 1))[0], grey_of(0, 0, 128), 6);
}

TEST(ImageDecoder, NoticesAFileThatEndsBelowTheRowsNeeded) {
  const std::string file = testing::to_jpeg(ramp(64, 64));
  EXPECT_PRED_FORMAT2(IsSubstring, "damaged", fault(file.substr(0, file.size() - 20), settings(0, 8)));
}

TEST(ImageDecoder, ResizesBothWaysWithoutShiftingThePicture) {
  for (const auto& [width, height, resize] :
       {std::tuple{300U, 200U, 64U}, {40U, 60U, 64U}, {1000U, 900U, 64U}, {64U, 64U, 64U}}) {
    for (const std::string& file :
         {testing::to_png(ramp(width, height)), testing::to_jpeg(ramp(width, height))}) {
      const auto planes = decoded(file, settings(resize, 32));
      const double scale = std::min(width, height) / double(resize);
      for (std::uint32_t at : {0U, 13U, 31U}) {
        const double x = (at + 0.5 - 16) * scale + width / 2.0, y = (at + 0.5 - 16) * scale + height / 2.0;
        EXPECT_NEAR(planes[at], (x - 0.5) * 255 / width, 5) << width << " x " << height;
        EXPECT_NEAR(planes[1024 + at * 32], (y - 0.5) * 255 / height, 5) << width << " x " << height;
      }
    }
  }
}

TEST(ImageDecoder, AveragesInsteadOfPickingPixels) {
  const testing::Drawing stripes =
      testing::draw(64, 64, [](auto x, auto, auto) { return x % 2 ? 255U : 0U; });
  for (const std::uint8_t value : decoded(testing::to_png(stripes), settings(16, 16)))
    EXPECT_NEAR(value, 127, 16);
  const testing::Drawing plain = testing::draw(50, 70, [](auto, auto, auto) { return 201U; });
  for (const std::uint8_t value : decoded(testing::to_png(plain), settings(33, 33))) EXPECT_EQ(value, 201);
}

TEST(ImageDecoder, GivesTheSameBytesAfterOtherImages) {
  const std::string file = testing::to_jpeg(ramp(300, 200));
  const auto first = decoded(file, settings(64, 56));
  ImageDecoder decoder;
  std::vector<std::uint8_t> planes(first.size());
  EXPECT_THROW(decoder.decode(bytes_of(file.substr(0, 900)), settings(64, 56), planes.data()), ImageFault);
  decoder.decode(bytes_of(testing::to_png(ramp(80, 90))), settings(64, 56), planes.data());
  decoder.decode(bytes_of(file), settings(64, 56), planes.data());
  EXPECT_EQ(planes, first);
}

TEST(ImageDecoder, NamesTheByteWhereAFileIsCutShort) {
  std::uint64_t offset = 0;
  for (const std::string& file :
       {testing::to_jpeg(ramp(64, 64)), testing::to_jpeg(ramp(64, 64), testing::JpegKind::kProgressive),
        testing::to_png(ramp(64, 64))}) {
    for (const std::size_t length : {file.size() / 3, file.size() / 2, file.size() - 20}) {
      EXPECT_PRED_FORMAT2(IsSubstring, "damaged", fault(file.substr(0, length), settings(0, 64), &offset))
          << length;
      EXPECT_LE(offset, length);
      EXPECT_GT(offset, 0U);
    }
  }
  const std::string png = testing::to_png(ramp(64, 64));
  fault(png.substr(0, png.size() / 2), settings(0, 64), &offset);
  EXPECT_EQ(offset, png.size() / 2) << "where it ends";
}

// Changes the size that a PNG header claims, and its checksum.
std::string with_png_size(std::string file, std::uint32_t width, std::uint32_t height) {
  for (int i = 0; i < 4; ++i) {
    file[static_cast<std::size_t>(16 + i)] = static_cast<char>(width >> (24 - 8 * i));
    file[static_cast<std::size_t>(20 + i)] = static_cast<char>(height >> (24 - 8 * i));
  }
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(file.data()) + 12, 17);
  for (int i = 0; i < 4; ++i) file[static_cast<std::size_t>(29 + i)] = static_cast<char>(sum >> (24 - 8 * i));
  return file;
}

TEST(ImageDecoder, RefusesBombsBeforeItTakesMemoryForThem) {
  EXPECT_PRED_FORMAT2(IsSubstring, "promises 60000 x 60000 pixels",
                      fault(with_png_size(testing::to_png(ramp(8, 8)), 60'000, 60'000), settings(256, 224)));
  std::string jpeg = testing::to_jpeg(ramp(8, 8));
  const std::size_t frame = jpeg.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  for (const std::size_t at : {5U, 7U}) jpeg.replace(frame + at, 2, "\xF0\xF0");
  EXPECT_PRED_FORMAT2(IsSubstring, "promises 61680 x 61680 pixels", fault(jpeg, settings(256, 224)));
  EXPECT_NE(fault(with_png_size(testing::to_png(ramp(8, 8)), 0, 8), settings(256, 224)), "accepted");
}

std::string big_endian(std::uint32_t value) {
  return {char(value >> 24), char(value >> 16), char(value >> 8), char(value)};
}

// A compressed text chunk of `bytes` equal characters.
std::string text_chunk(std::size_t bytes) {
  const std::vector<Bytef> text(bytes, 'a');
  std::vector<Bytef> packed(compressBound(uLong(bytes)));
  uLongf length = packed.size();
  compress2(packed.data(), &length, text.data(), uLong(bytes), 9);
  std::string content =
      std::string("zTXtnote\0\0", 10) + std::string(packed.begin(), packed.begin() + long(length));
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(content.data()), uInt(content.size()));
  return big_endian(std::uint32_t(content.size() - 4)) + content + big_endian(std::uint32_t(sum));
}

TEST(ImageDecoder, TextsInAPngTakeNoMemory) {
  constexpr std::size_t kHeaderEnd = 33;
  std::string file = testing::to_png(ramp(8, 8)), texts;
  const std::string text = text_chunk(7'900'000);
  for (int i = 0; i < 100; ++i) texts += text;
  file.insert(kHeaderEnd, texts);
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  EXPECT_EQ(fault(file, settings(0, 8)), "accepted");
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 100'000) << "KiB";
}

TEST(ImageDecoder, TakesVeryLongThinPictures) {
  EXPECT_EQ(fault(testing::to_png(ramp(5000, 1)), settings(4096, 16)), "accepted");
  EXPECT_PRED_FORMAT2(IsSubstring, "fewer than the 16 x 16 wanted",
                      fault(testing::to_png(ramp(5000, 1)), settings(0, 16)));
}

TEST(ImageDecoder, RefusesWhatIsNeitherJpegNorPng) {
  for (const std::string& file : {std::string(), std::string("GIF89a..."), std::string("\xFF\xD8", 2)})
    EXPECT_PRED_FORMAT2(IsSubstring, "neither JPEG nor PNG", fault(file, settings(0, 1)));
}

TEST(ImageDecoder, ReadsSizesFromTheHeaderAlone) {
  ImageDecoder decoder;
  for (const std::string& file :
       {testing::to_jpeg(ramp(30, 20)).substr(0, 700), testing::to_png(ramp(30, 20)).substr(0, 60)}) {
    const ImageSize size = decoder.size(bytes_of(file));
    EXPECT_EQ(size.width, 30U);
    EXPECT_EQ(size.height, 20U);
  }
}

TEST(ImageSettings, RefuseSizesThatDoNotFit) {
  const auto why = [](std::int64_t resize, std::int64_t crop, std::int64_t channels) {
    return testing::refusal([&] {
      image_settings("set", {{"resize", resize}, {"crop", crop}, {"channels", channels}});
    });
  };
  EXPECT_EQ(why(256, 224, 3), "accepted");
  EXPECT_PRED_FORMAT2(IsSubstring, "option 'crop'", why(100, 224, 3));
  EXPECT_PRED_FORMAT2(IsSubstring, "option 'resize'", why(-1, 224, 3));
  EXPECT_PRED_FORMAT2(IsSubstring, "option 'crop'", why(0, 0, 3));
  EXPECT_PRED_FORMAT2(IsSubstring, "option 'channels'", why(0, 1, 4));
}

}  // namespace
}  // namespace distbelief::data
