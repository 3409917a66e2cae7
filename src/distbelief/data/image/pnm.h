#pragma once

#include <cstdint>
#include <span>

#include "distbelief/data/image/pixels.h"

namespace distbelief::data {

bool is_pnm(std::span<const std::uint8_t> file);

// Decodes a binary PGM or PPM file (P5, P6; 8 bits per channel). Throws ImageFault for a file that is
// damaged, cut short or too large. Memory follows the bytes in the file. Thread-safe.
void decode_pnm(std::span<const std::uint8_t> file, const DecodeRequest& request, Pixels& out);
ImageSize pnm_size(std::span<const std::uint8_t> file);  // reads only the header

}  // namespace distbelief::data
