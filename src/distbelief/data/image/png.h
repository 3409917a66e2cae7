#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "distbelief/data/image/pixels.h"

namespace distbelief::data {

bool is_png(std::span<const std::uint8_t> file);

// Decodes PNG with libpng: every colour type and depth, to 8 bits per channel. Drops transparency and ignores
// gamma. `rows` is working memory. Throws ImageFault for a file that is damaged, cut short or too large.
// Thread-safe.
void decode_png(std::span<const std::uint8_t> file, const DecodeRequest& request, Pixels& out,
                std::vector<std::uint8_t*>& rows);
ImageSize png_size(std::span<const std::uint8_t> file);  // reads only the header

}  // namespace distbelief::data
