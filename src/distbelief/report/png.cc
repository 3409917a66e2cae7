#include "distbelief/report/png.h"

#include <zlib.h>

#include <algorithm>
#include <vector>

#include "distbelief/base/error.h"

namespace distbelief::report {
namespace {

void append_big_endian(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += char(value >> shift & 0xFF);
}

void append_chunk(std::string& out, const std::string& type, const std::string& body) {
  append_big_endian(out, std::uint32_t(body.size()));
  const std::string summed = type + body;
  out += summed;
  append_big_endian(
      out, std::uint32_t(crc32(0, reinterpret_cast<const Bytef*>(summed.data()), uInt(summed.size()))));
}

// Rows of pixels, each after the number of its filter: 0, none.
std::string rows_of(const PlanarImage& image, int every, int height, int width) {
  std::string rows;
  rows.reserve(std::size_t(height) * (1 + std::size_t(width * image.channels)));
  const std::size_t plane = std::size_t(image.height) * std::size_t(image.width);
  for (int y = 0; y < height; ++y) {
    rows += '\0';
    for (int x = 0; x < width; ++x)
      for (int channel = 0; channel < image.channels; ++channel)
        rows +=
            char(image.pixels[std::size_t(channel) * plane +
                              std::size_t(y * every) * std::size_t(image.width) + std::size_t(x * every)]);
  }
  return rows;
}

std::string deflated(const std::string& text) {
  uLongf size = compressBound(uLong(text.size()));
  std::string out(size, '\0');
  const int result = compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                               reinterpret_cast<const Bytef*>(text.data()), uLong(text.size()), 9);
  DISTBELIEF_INVARIANT(result == Z_OK);
  out.resize(size);
  return out;
}

}  // namespace

std::string encode_png(const PlanarImage& image, int most) {
  DISTBELIEF_INVARIANT((image.channels == 1 || image.channels == 3) && image.height > 0 && image.width > 0);
  DISTBELIEF_INVARIANT(image.pixels.size() ==
                       std::size_t(image.channels) * std::size_t(image.height) * std::size_t(image.width));
  const int every = (std::max(image.height, image.width) + most - 1) / most;
  const int height = (image.height + every - 1) / every, width = (image.width + every - 1) / every;
  std::string header;
  append_big_endian(header, std::uint32_t(width));
  append_big_endian(header, std::uint32_t(height));
  header += {char(8), char(image.channels == 1 ? 0 : 2), 0, 0, 0};  // 8 bits, grey or colour
  std::string out = "\x89PNG\r\n\x1a\n";
  append_chunk(out, "IHDR", header);
  append_chunk(out, "IDAT", deflated(rows_of(image, every, height, width)));
  append_chunk(out, "IEND", "");
  return out;
}

std::string base64(std::string_view bytes) {
  constexpr const char* kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t there = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) group = group << 8 | (k < there ? std::uint8_t(bytes[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k) out += k <= there ? kLetters[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

}  // namespace distbelief::report
