#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "distbelief/data/image/pixels.h"

// How a camera was held: it stores what its sensor saw, and notes in EXIF how to turn it.
namespace distbelief::data {

// As EXIF numbers them: what has to be done with the stored picture, or what it shows.
enum class Orientation : std::uint8_t {
  kUpright = 1,
  kMirrored = 2,
  kUpsideDown = 3,
  kUpsideDownMirrored = 4,
  kTransposed = 5,
  kTurnRight = 6,  // to be upright
  kTransversed = 7,
  kTurnLeft = 8
};

// What a JPEG file says of it; upright when it says nothing, or nothing sensible. Looks at the segments
// before the picture alone, and trusts no length in them. Pure.
Orientation exif_orientation(std::span<const std::uint8_t> jpeg);

ImageSize upright_size(Orientation stored, ImageSize size);
// Turns the picture. `space` is working space, as large as the picture unless it is upright.
void turn_upright(Orientation stored, Pixels& picture, std::vector<std::uint8_t>& space);

}  // namespace distbelief::data
