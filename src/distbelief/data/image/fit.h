#pragma once

#include <cstdint>
#include <vector>

#include "distbelief/data/image/pixels.h"

// Bringing a picture to the size that a model takes.
namespace distbelief::data {

struct FitSize {
  std::uint32_t resize = 256;  // the shorter side afterwards; 0: as it is
  std::uint32_t crop = 224;    // the square cut from the middle
};

// Where a crop comes from, along one axis of the picture: output position p shows resized position first + p.
struct FitAxis {
  std::uint32_t source = 0;   // length of the picture
  std::uint64_t resized = 0;  // and once resized
  std::uint64_t first = 0;
  std::uint32_t outputs = 0;  // how many positions are shown
  bool operator==(const FitAxis&) const = default;
};
struct FitPlan {
  FitAxis across;
  FitAxis down;
};
// Throws ImageFault when the picture is smaller than the crop and is not to be resized.
FitPlan plan_fit(ImageSize picture, FitSize wanted);
// The largest part from the middle that has the proportions of `wanted`, at that size.
FitPlan plan_cover(ImageSize picture, ImageSize wanted);

// Resizes and crops as planned. Writes planes of bytes, one for each channel. Resizing is by
// triangle filters as wide as the scale asks for (no aliasing), in fixed point: the same bits on every
// machine. Keeps working space and the filters of the last size. One thread.
class Fitter {
 public:
  void fit(const Pixels& picture, const FitPlan& plan, std::uint8_t* planes);

 private:
  // The weights of source positions [begin, begin + count) for one output position.
  struct Taps {
    std::uint32_t begin = 0;
    std::uint32_t count = 0;
    std::size_t first_weight = 0;
  };
  struct Filter {
    FitAxis axis;
    std::vector<Taps> taps;
    std::vector<std::int32_t> weights;
  };
  static void prepare(Filter& filter, const FitAxis& axis);
  void resize_across(const Pixels& picture, std::uint32_t first_row, std::uint32_t rows);
  void resize_down(std::uint32_t first_row, std::uint32_t channels, std::uint8_t* planes);

  Filter across_;
  Filter down_;
  std::vector<std::uint8_t> rows_;  // resized across
  std::vector<std::uint8_t> line_;
  std::vector<std::int32_t> sums_;
};

}  // namespace distbelief::data
