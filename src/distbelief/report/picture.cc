#include "distbelief/report/picture.h"

#include <openssl/evp.h>
#include <png.h>

#include <algorithm>

#include "distbelief/base/durable_file.h"
#include "distbelief/base/error.h"

namespace distbelief::report {

Picture picture_of(const PlanarImage& image, int most) {
  DISTBELIEF_INVARIANT((image.channels == 1 || image.channels == 3) && image.height > 0 && image.width > 0);
  const std::size_t plane = std::size_t(image.height) * std::size_t(image.width);
  DISTBELIEF_INVARIANT(image.pixels.size() == std::size_t(image.channels) * plane);
  const int every = (std::max(image.height, image.width) + most - 1) / most;
  Picture picture{.width = (image.width + every - 1) / every,
                  .height = (image.height + every - 1) / every,
                  .channels = image.channels,
                  .bytes = {}};
  for (int y = 0; y < image.height; y += every)
    for (int x = 0; x < image.width; x += every)
      for (int channel = 0; channel < image.channels; ++channel)
        picture.bytes.push_back(image.pixels[std::size_t(channel) * plane +
                                             std::size_t(y) * std::size_t(image.width) + std::size_t(x)]);
  return picture;
}

// Assigns the bits of the number to red, green and blue in turn, the highest places first.
std::uint32_t class_colour(std::int64_t index) {
  std::uint32_t colour = 0;
  auto left = static_cast<std::uint32_t>(index);
  for (unsigned bit = 8; bit-- > 0; left >>= 3U)
    colour |= (left & 1U) << (16 + bit) | (left >> 1U & 1U) << (8 + bit) | (left >> 2U & 1U) << bit;
  return colour;
}

Picture picture_of(const ClassImage& image) {
  DISTBELIEF_INVARIANT(image.classes.size() == std::size_t(image.height) * std::size_t(image.width));
  Picture picture{.width = image.width, .height = image.height, .channels = 3, .bytes = {}};
  for (const std::int64_t index : image.classes) {
    const std::uint32_t colour = class_colour(index);
    for (const unsigned shift : {16U, 8U, 0U}) picture.bytes.push_back(std::uint8_t(colour >> shift & 255U));
  }
  return picture;
}

Picture contact_sheet(const std::vector<Picture>& pictures, int columns, int gap) {
  Picture sheet;
  if (pictures.empty()) return sheet;
  const Picture& first = pictures[0];
  columns = std::clamp(columns, 1, int(pictures.size()));
  const int rows = (int(pictures.size()) + columns - 1) / columns;
  sheet.channels = first.channels;
  sheet.width = columns * (first.width + gap) - gap;
  sheet.height = rows * (first.height + gap) - gap;
  sheet.bytes.resize(std::size_t(sheet.width) * std::size_t(sheet.height) * std::size_t(sheet.channels), 255);
  const auto line = std::size_t(first.width * first.channels);
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const int left = int(i) % columns * (first.width + gap), top = int(i) / columns * (first.height + gap);
    for (int y = 0; y < first.height; ++y)
      std::copy_n(pictures[i].bytes.begin() + std::ptrdiff_t(std::size_t(y) * line), line,
                  sheet.bytes.begin() + std::ptrdiff_t((top + y) * sheet.width + left) * sheet.channels);
  }
  return sheet;
}

std::string encode_png(const Picture& picture) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = png_uint_32(picture.width);
  image.height = png_uint_32(picture.height);
  image.format = picture.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  DISTBELIEF_INVARIANT(picture.bytes.size() == PNG_IMAGE_SIZE(image));
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string file(size, '\0');
  if (png_image_write_to_memory(&image, file.data(), &size, 0, picture.bytes.data(), 0, nullptr) == 0)
    throw Error(ErrorCode::kInternal, std::string("libpng could not write an image: ") + image.message);
  file.resize(size);
  return file;
}

void write_png(const std::filesystem::path& path, const Picture& picture) {
  const std::string file = encode_png(picture);
  const std::string_view pieces[] = {file};
  write_atomically(path, pieces);
}

std::string base64(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');  // including the zero byte that the encoder appends
  const int letters =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), int(bytes.size()));
  out.resize(std::size_t(letters));
  return out;
}

}  // namespace distbelief::report
