#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace distbelief::report {

// An image of bytes, as data sets have them: [channels, height, width], 1 (grey) or 3 (red, green, blue).
struct PlanarImage {
  int channels = 1;
  int height = 0;
  int width = 0;
  std::span<const std::uint8_t> pixels{};
};

// As a PNG file. An image wider or higher than `most` is drawn smaller: every n-th pixel.
std::string encode_png(const PlanarImage& image, int most);

std::string base64(std::string_view bytes);

}  // namespace distbelief::report
