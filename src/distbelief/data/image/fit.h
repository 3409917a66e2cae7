#pragma once

#include <cstdint>
#include <vector>

#include "distbelief/data/image/pixels.h"

// Resizes and crops a picture to the input size of a model.
namespace distbelief::data {

struct FitSize {
  std::uint32_t resize = 256;  // length of the shorter side after resizing; 0: no resizing
  std::uint32_t crop = 224;    // side of the centred square
};

// The source of a crop along one axis: output position p shows resized position first + p.
struct FitAxis {
  std::uint32_t source = 0;   // length of the picture
  std::uint64_t resized = 0;  // length after resizing
  std::uint64_t first = 0;
  std::uint32_t outputs = 0;  // number of output positions
  bool operator==(const FitAxis&) const = default;
};
struct FitPlan {
  FitAxis across;
  FitAxis down;
};
// Throws ImageFault when the picture is smaller than the crop and resizing is off.
FitPlan plan_fit(ImageSize picture, FitSize wanted);
// The largest centred part with the proportions of `wanted`, resized to `wanted`.
FitPlan plan_cover(ImageSize picture, ImageSize wanted);

// Resizes and crops as planned and writes one plane of bytes per channel. Resizing uses triangle filters as
// wide as the scale requires (no aliasing), in fixed point: the same bits on every machine. Keeps working
// memory and the filters of the last size. Use from one thread.
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
