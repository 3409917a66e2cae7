#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "distbelief/data/image/pixels.h"

namespace distbelief::data {

bool is_png(std::span<const std::uint8_t> file);

// PNG by libpng: every colour type and depth, as 8 bits a channel. Transparency is dropped, gamma left as it
// is. `rows` is working space. Throws ImageFault for what is damaged, cut short or too large. Any thread.
void decode_png(std::span<const std::uint8_t> file, const DecodeRequest& request, Pixels& out,
                std::vector<std::uint8_t*>& rows);
ImageSize png_size(std::span<const std::uint8_t> file);  // the header alone

}  // namespace distbelief::data
