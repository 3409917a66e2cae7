#pragma once

#include <cstdint>
#include <vector>

#include "distbelief/data/image/fit.h"

namespace distbelief::data {

// A picture as JPEG stores it: brightness per pixel, and two colour planes that may have fewer samples.
// Refilling it reuses its memory.
struct YccPicture {
  enum class Colour { kEveryPixel, kHalfAcross, kHalfAcrossAndDown };
  struct Plane {
    std::uint32_t width = 0;  // samples that belong to the picture
    std::uint32_t height = 0;
    std::size_t row_bytes = 0;  // at least `width`: rows hold whole blocks
    std::vector<std::uint8_t> samples{};
    const std::uint8_t* row(std::size_t y) const { return samples.data() + y * row_bytes; }
  };
  Plane planes[3];  // brightness, blue, red
  Colour colour = Colour::kEveryPixel;

  ImageSize size() const { return {planes[0].width, planes[0].height}; }
};

// Converts a part of such a picture to red, green and blue. The bytes equal those of libjpeg-turbo for the
// whole picture (triangle filters between colour samples, BT.601 in 16-bit fixed point), but pixels outside
// the part are not computed, and channels are written to separate planes at once. Keeps working memory. Use
// from one thread.
class YccMixer {
 public:
  // Writes three planes of bytes. The plan must not resize.
  void crop(const YccPicture& picture, const FitPlan& plan, std::uint8_t* planes);

 private:
  // The visible columns of one colour plane, and working memory for them.
  struct Columns {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    std::vector<std::uint16_t> sums{};   // weighted sums of each colour sample and its vertical neighbour
    std::vector<std::uint16_t> pairs{};  // two output pixels each
  };
  // Returns one colour plane at the pixels of row y.
  static const std::uint8_t* spread(const YccPicture& picture, std::size_t plane, std::uint32_t y,
                                    Columns& columns);

  Columns blue_;
  Columns red_;
};

}  // namespace distbelief::data
