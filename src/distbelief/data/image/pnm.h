#pragma once

#include <cstdint>
#include <span>

#include "distbelief/data/image/pixels.h"

namespace distbelief::data {

bool is_pnm(std::span<const std::uint8_t> file);

// A binary PGM or PPM file (P5, P6; 8 bits a channel). Throws ImageFault for what is damaged, cut short or
// too large; memory follows the bytes that are there. Any thread.
void decode_pnm(std::span<const std::uint8_t> file, const DecodeRequest& request, Pixels& out);
ImageSize pnm_size(std::span<const std::uint8_t> file);  // the header alone

}  // namespace distbelief::data
