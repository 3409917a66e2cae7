#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Images as PNG files (libpng).
namespace distbelief::report {

// An image of bytes: rows from the top, pixels from the left, the channels of a pixel adjacent.
struct Picture {
  int width = 0;
  int height = 0;
  int channels = 1;  // 1 grey, 3 red, green and blue
  std::vector<std::uint8_t> bytes;
};

// An image in data set layout: [channels, height, width]. Borrows its pixels.
struct PlanarImage {
  int channels = 1;
  int height = 0;
  int width = 0;
  std::span<const std::uint8_t> pixels{};
};
// Shrinks an image wider or higher than `most` by taking every n-th pixel.
Picture picture_of(const PlanarImage& image, int most);

// The class of every pixel, rows from the top. Borrows the classes.
struct ClassImage {
  int height = 0;
  int width = 0;
  std::span<const std::int64_t> classes{};
};
// The colour of a class, 0xRRGGBB, as in the PASCAL VOC devkit: 0 is black, and the first 256 are distinct.
std::uint32_t class_colour(std::int64_t index);
Picture picture_of(const ClassImage& image);

// A grid of equally large pictures in rows of `columns`, `gap` pixels apart.
Picture contact_sheet(const std::vector<Picture>& pictures, int columns, int gap = 2);

// The bytes of a PNG file. Throws Error(kInternal) when libpng fails.
std::string encode_png(const Picture& picture);
// Readers see either the old file or the complete new one. Throws Error(kUnavailable) with file and reason.
void write_png(const std::filesystem::path& path, const Picture& picture);

std::string base64(std::string_view bytes);

}  // namespace distbelief::report
