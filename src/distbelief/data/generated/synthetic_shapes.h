#pragma once

#include "distbelief/data/generated/generated_source.h"

namespace distbelief::data {

// Grey images of discs, squares and triangles in several sizes and grey levels on a noisy ground. The target
// is the class of each pixel: 0 ground, 1 disc, 2 square, 3 triangle. Later shapes cover earlier ones.
// Computed from the index in integer arithmetic.
class SyntheticShapes : public GeneratedSource {
 public:
  struct Options {
    std::int64_t samples = 10'000;
    std::int64_t size = 32;  // height and width
    double noise = 0.25;     // largest change of a pixel, as a share of the full range
  };
  // Throws Error(kBadInput) for options outside their range.
  SyntheticShapes(Part part, const Options& options);

 private:
  void draw(std::uint64_t index, void* input, void* target) const override;

  std::int64_t side_;
  int noise_amplitude_;
};

}  // namespace distbelief::data
