#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Images for people to look at, as PNG files (libpng).
namespace distbelief::report {

// An image of bytes: rows from the top, pixels from the left, channels of a pixel side by side.
struct Picture {
  int width = 0;
  int height = 0;
  int channels = 1;  // 1 grey, 3 red, green and blue
  std::vector<std::uint8_t> bytes;
};

// An image as data sets have them: [channels, height, width]. Borrows its pixels.
struct PlanarImage {
  int channels = 1;
  int height = 0;
  int width = 0;
  std::span<const std::uint8_t> pixels{};
};
// One wider or higher than `most` is drawn smaller: every n-th pixel.
Picture picture_of(const PlanarImage& image, int most);

// The class of every pixel, rows from the top. Borrows them.
struct ClassImage {
  int height = 0;
  int width = 0;
  std::span<const std::int64_t> classes{};
};
// The colour of a class, 0xRRGGBB, as the PASCAL VOC devkit has them: 0 is black, and 256 differ.
std::uint32_t class_colour(std::int64_t index);
Picture picture_of(const ClassImage& image);

// Many pictures of one size in rows of `columns`, with a line of `gap` pixels between them.
Picture contact_sheet(const std::vector<Picture>& pictures, int columns, int gap = 2);

// The bytes of a PNG file. Throws Error(kInternal) when libpng will not make it.
std::string encode_png(const Picture& picture);
// Readers see the old file or the whole new one. Throws Error(kUnavailable) with file and reason.
void write_png(const std::filesystem::path& path, const Picture& picture);

std::string base64(std::string_view bytes);

}  // namespace distbelief::report
