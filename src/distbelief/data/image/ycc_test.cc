#include "distbelief/data/image/ycc.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "distbelief/base/random.h"
#include "distbelief/data/image/jpeg.h"
#include "distbelief/testing/written_images.h"

namespace distbelief::data {
namespace {

// A different colour at every pixel, including the extremes.
std::string noisy_jpeg(ImageSize size, testing::JpegKind kind) {
  SplitMix64 random(size.width * 1000 + size.height);
  return testing::to_jpeg(
      testing::draw(size.width, size.height, [&](auto, auto, auto) { return random.below(256); }), kind);
}

std::span<const std::uint8_t> jpeg_bytes(const std::string& file) {
  return {reinterpret_cast<const std::uint8_t*>(file.data()), file.size()};
}

// Compares the part at (x, y) as decoded by libjpeg with the result of YccMixer.
void expect_same_bytes(const std::string& file, ImageSize at, ImageSize part) {
  JpegDecoder decoder;
  Pixels whole;
  decoder.decode(jpeg_bytes(file), {}, whole);
  YccPicture apart;
  ASSERT_TRUE(decoder.decode_apart(jpeg_bytes(file), {}, apart));
  const FitPlan plan{{whole.width, whole.width, at.width, part.width},
                     {whole.height, whole.height, at.height, part.height}};
  const std::size_t bytes = std::size_t{3} * part.width * part.height;
  std::vector<std::uint8_t> wanted(bytes), found(bytes);
  Fitter().fit(whole, plan, wanted.data());
  YccMixer().crop(apart, plan, found.data());
  EXPECT_EQ(found, wanted) << part.width << " x " << part.height << " at " << at.width << ", " << at.height
                           << " of " << whole.width << " x " << whole.height;
}

constexpr testing::JpegKind kKnownKinds[] = {testing::JpegKind::kBaseline, testing::JpegKind::kProgressive,
                                             testing::JpegKind::kColourEverywhere,
                                             testing::JpegKind::kColourHalfAcross};

TEST(YccMixer, HasTheBytesOfLibjpegForEverySize) {
  for (const testing::JpegKind kind : kKnownKinds)
    for (std::uint32_t width = 5; width < 40; ++width) {
      const ImageSize size{width, 45 - width};
      expect_same_bytes(noisy_jpeg(size, kind), {0, 0}, size);
    }
}

TEST(YccMixer, HasTheBytesOfLibjpegForEveryPart) {
  for (const testing::JpegKind kind : kKnownKinds) {
    const std::string file = noisy_jpeg({37, 35}, kind);
    for (std::uint32_t x = 0; x < 37; ++x)
      expect_same_bytes(file, {x, 35 - 1 - x % 35}, {37 - x, x % 35 + 1});
    for (std::uint32_t side = 1; side <= 35; ++side)
      expect_same_bytes(file, {side % 3, 0}, {side - side % 3, side});
  }
}

std::uint8_t clamped(int value) { return static_cast<std::uint8_t>(std::clamp(value, 0, 255)); }

TEST(YccMixer, MixesEveryColourAsTheDefinitionSays) {
  YccPicture picture;
  for (auto& plane : picture.planes)
    plane = {.width = 256, .height = 256, .row_bytes = 256, .samples = std::vector<std::uint8_t>(65'536)};
  for (std::size_t i = 0; i < 65'536; ++i) {
    picture.planes[1].samples[i] = static_cast<std::uint8_t>(i % 256);
    picture.planes[2].samples[i] = static_cast<std::uint8_t>(i / 256);
  }
  const FitPlan all{{256, 256, 0, 256}, {256, 256, 0, 256}};
  std::vector<std::uint8_t> found(3 * 65'536), wanted(3 * 65'536);
  for (int y = 0; y < 256; y += 15) {
    std::fill(picture.planes[0].samples.begin(), picture.planes[0].samples.end(), std::uint8_t(y));
    YccMixer().crop(picture, all, found.data());
    for (int i = 0; i < 65'536; ++i) {
      const int u = i % 256 - 128, v = i / 256 - 128;
      wanted[std::size_t(i)] = clamped(y + ((91'881 * v + 32'768) >> 16));
      wanted[std::size_t(i) + 65'536] = clamped(y + ((-22'554 * u - 46'802 * v + 32'768) >> 16));
      wanted[std::size_t(i) + 131'072] = clamped(y + ((116'130 * u + 32'768) >> 16));
    }
    ASSERT_EQ(found, wanted) << y;
  }
}

TEST(JpegDecoder, DecodesApartOnlyWhatNeedsNoResizingInKnownWays) {
  JpegDecoder decoder;
  YccPicture apart;
  const auto taken = [&](const std::string& file, const DecodeRequest& request) {
    return decoder.decode_apart(jpeg_bytes(file), request, apart);
  };
  const std::string usual = noisy_jpeg({40, 30}, testing::JpegKind::kBaseline);
  EXPECT_TRUE(taken(usual, {}));
  EXPECT_TRUE(taken(usual, {.least_side = 30}));
  EXPECT_FALSE(taken(usual, {.least_side = 20}));
  EXPECT_FALSE(taken(usual, {.channels = 1}));
  EXPECT_FALSE(taken(noisy_jpeg({4, 30}, testing::JpegKind::kBaseline), {}));
  EXPECT_FALSE(taken(noisy_jpeg({40, 30}, testing::JpegKind::kColourHalfDown), {}));
  EXPECT_FALSE(taken(noisy_jpeg({40, 30}, testing::JpegKind::kCmyk), {}));
  EXPECT_TRUE(taken(usual, {}));  // the refused files leave no state behind
}

TEST(JpegDecoder, DecodingApartRefusesWhatIsCutShortOrTooLarge) {
  JpegDecoder decoder;
  YccPicture apart;
  const std::string file = noisy_jpeg({40, 30}, testing::JpegKind::kBaseline);
  EXPECT_THROW(decoder.decode_apart(jpeg_bytes(file.substr(0, file.size() / 2)), {}, apart), ImageFault);
  EXPECT_THROW(decoder.decode_apart(jpeg_bytes(file), {.most_pixels = 1199}, apart), ImageFault);
  EXPECT_TRUE(decoder.decode_apart(jpeg_bytes(file), {}, apart));
}

}  // namespace
}  // namespace distbelief::data
