#pragma once

#include "distbelief/data/generated/generated_source.h"

namespace distbelief::data {

// Grey images of discs, squares and triangles of several sizes and greys on a noisy ground; the target is the
// class of every pixel: 0 ground, 1 disc, 2 square, 3 triangle. Later shapes lie on earlier ones. Computed
// from the index in whole numbers.
class SyntheticShapes : public GeneratedSource {
 public:
  struct Options {
    std::int64_t samples = 10'000;
    std::int64_t size = 32;  // of both sides
    double noise = 0.25;     // the most a pixel is changed, as a share of the whole range
  };
  // Throws Error(kBadInput) for options outside their range.
  SyntheticShapes(Part part, const Options& options);

 private:
  void draw(std::uint64_t index, void* input, void* target) const override;

  std::int64_t side_;
  int noise_amplitude_;
};

}  // namespace distbelief::data
