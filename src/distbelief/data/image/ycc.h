#pragma once

#include <cstdint>
#include <vector>

#include "distbelief/data/image/fit.h"

namespace distbelief::data {

// A picture as JPEG keeps it: brightness at every pixel, and two planes of colour, which may have fewer
// samples. Keeps its memory when it is filled again.
struct YccPicture {
  enum class Colour { kEveryPixel, kHalfAcross, kHalfAcrossAndDown };
  struct Plane {
    std::uint32_t width = 0;  // samples that show something
    std::uint32_t height = 0;
    std::size_t row_bytes = 0;  // whole blocks of the format: more than `width`
    std::vector<std::uint8_t> samples{};
    const std::uint8_t* row(std::size_t y) const { return samples.data() + y * row_bytes; }
  };
  Plane planes[3];  // brightness, blue, red
  Colour colour = Colour::kEveryPixel;

  ImageSize size() const { return {planes[0].width, planes[0].height}; }
};

// Red, green and blue of a part of such a picture. The bytes are those that libjpeg-turbo makes of the whole
// (triangle filters between the samples of colour, BT.601 in 16 bits of fixed point), but pixels outside are
// not made, nor is a row of mixed channels that would have to be split again. Keeps working space. One
// thread.
class YccMixer {
 public:
  // Writes three planes of bytes. The plan must not resize.
  void crop(const YccPicture& picture, const FitPlan& plan, std::uint8_t* planes);

 private:
  // The columns that are shown, and working space for them.
  struct Columns {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    std::vector<std::uint16_t> sums{};   // of a sample of colour and its neighbour above or below
    std::vector<std::uint16_t> pairs{};  // two pixels in each
  };
  // One colour at the pixels of row y.
  static const std::uint8_t* spread(const YccPicture& picture, std::size_t plane, std::uint32_t y,
                                    Columns& columns);

  Columns blue_;
  Columns red_;
};

}  // namespace distbelief::data
