#include "distbelief/report/png_file.h"

#include <png.h>

#include <algorithm>
#include <string>

#include "distbelief/base/error.h"
#include "distbelief/base/durable_file.h"

namespace distbelief::report {

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

void write_png(const std::filesystem::path& path, const Picture& picture) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = png_uint_32(picture.width);
  image.height = png_uint_32(picture.height);
  image.format = picture.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  const auto fail = [&] {
    throw Error(ErrorCode::kUnavailable, path.string() + " could not be written as PNG: " + image.message);
  };
  png_alloc_size_t size = 0;
  if (png_image_write_to_memory(&image, nullptr, &size, 0, picture.bytes.data(), 0, nullptr) == 0) fail();
  std::string text(size, '\0');
  if (png_image_write_to_memory(&image, text.data(), &size, 0, picture.bytes.data(), 0, nullptr) == 0) fail();
  const std::string_view pieces[] = {std::string_view(text).substr(0, size)};
  write_atomically(path, pieces);
}

}  // namespace distbelief::report
