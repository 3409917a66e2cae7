#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "distbelief/data/image/pixels.h"

// Orientation of photographs: a camera stores the sensor's rows and records in EXIF how to turn them.
namespace distbelief::data {

// The EXIF numbers. Each names the turn that makes the stored picture upright, or the state of that picture.
enum class Orientation : std::uint8_t {
  kUpright = 1,
  kMirrored = 2,
  kUpsideDown = 3,
  kUpsideDownMirrored = 4,
  kTransposed = 5,
  kTurnRight = 6,  // turn right to make it upright
  kTransversed = 7,
  kTurnLeft = 8
};

// The EXIF orientation of a JPEG file; upright when it is missing or invalid. Reads only the segments before
// the picture and trusts no length in them. Pure.
Orientation exif_orientation(std::span<const std::uint8_t> jpeg);

ImageSize upright_size(Orientation stored, ImageSize size);
// Turns the picture. `space` is working memory as large as the picture; upright pictures do not use it.
void turn_upright(Orientation stored, Pixels& picture, std::vector<std::uint8_t>& space);

}  // namespace distbelief::data
