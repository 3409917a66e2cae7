#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace distbelief::report {

// An image of bytes: rows from the top, pixels from the left, channels of a pixel side by side.
struct Picture {
  int width = 0;
  int height = 0;
  int channels = 1;  // 1 grey, 3 red, green and blue
  std::vector<std::uint8_t> bytes;
};

// Many pictures of one size in rows of `columns`, with a line of `gap` pixels between them.
Picture contact_sheet(const std::vector<Picture>& pictures, int columns, int gap = 2);

// Readers see the old file or the whole new one. Throws Error(kUnavailable) with file and reason.
void write_png(const std::filesystem::path& path, const Picture& picture);

}  // namespace distbelief::report
