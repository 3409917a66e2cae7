#pragma once

#include <png.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <jpeglib.h>  // after <cstdio>, which it needs and does not include

// Images as files, for tests and benchmarks.
namespace distbelief::testing {

struct Drawing {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::vector<std::uint8_t> rgb;
};

// `paint` gives channel c of pixel (x, y).
inline Drawing draw(std::uint32_t width, std::uint32_t height,
                    const std::function<std::uint32_t(std::uint32_t, std::uint32_t, std::uint32_t)>& paint) {
  Drawing drawing{width, height, {}};
  for (std::uint32_t y = 0; y < height; ++y)
    for (std::uint32_t x = 0; x < width; ++x)
      for (std::uint32_t c = 0; c < 3; ++c) drawing.rgb.push_back(static_cast<std::uint8_t>(paint(x, y, c)));
  return drawing;
}

// The first two halve the colour resolution in both directions, the last three as their names say.
enum class JpegKind { kBaseline, kProgressive, kCmyk, kColourEverywhere, kColourHalfAcross, kColourHalfDown };

inline void set_colour_samples(jpeg_compress_struct& info, JpegKind kind) {
  if (kind == JpegKind::kColourEverywhere || kind == JpegKind::kColourHalfDown)
    info.comp_info[0].h_samp_factor = 1;
  if (kind == JpegKind::kColourEverywhere || kind == JpegKind::kColourHalfAcross)
    info.comp_info[0].v_samp_factor = 1;
}

inline std::string to_jpeg(const Drawing& drawing, JpegKind kind = JpegKind::kBaseline, int quality = 95) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = drawing.width;
  info.image_height = drawing.height;
  info.input_components = kind == JpegKind::kCmyk ? 4 : 3;
  info.in_color_space = kind == JpegKind::kCmyk ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  set_colour_samples(info, kind);
  if (kind == JpegKind::kProgressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  std::vector<std::uint8_t> row;
  while (info.next_scanline < info.image_height) {
    row.clear();
    for (std::uint32_t x = 0; x < drawing.width; ++x) {
      for (std::uint32_t c = 0; c < 3; ++c)
        row.push_back(drawing.rgb[(std::size_t{info.next_scanline} * drawing.width + x) * 3 + c]);
      if (kind == JpegKind::kCmyk) row.push_back(255);
    }
    JSAMPROW rows[] = {row.data()};
    jpeg_write_scanlines(&info, rows, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return file;
}

// `format` is a libpng format: PNG_FORMAT_RGB, PNG_FORMAT_GRAY. `pixels` has that format.
inline std::string to_png(std::uint32_t width, std::uint32_t height, png_uint_32 format, const void* pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = format;
  png_alloc_size_t size = 0;
  png_image_write_get_memory_size(image, size, 0, pixels, 0, nullptr);
  std::string file(size, '\0');
  png_image_write_to_memory(&image, file.data(), &size, 0, pixels, 0, nullptr);
  file.resize(size);
  return file;
}

inline std::string to_png(const Drawing& drawing) {
  return to_png(drawing.width, drawing.height, PNG_FORMAT_RGB, drawing.rgb.data());
}

}  // namespace distbelief::testing
