#pragma once

#include <cstdint>
#include <vector>

#include "distbelief/data/generated/generated_source.h"

// Samples computed in integer arithmetic: the same bits on every machine.
namespace distbelief::data {

// Images of class index % classes: a smooth pattern per class plus noise per sample.
class SyntheticImages : public GeneratedSource {
 public:
  struct Options {
    std::int64_t samples = 60'000;
    std::int64_t channels = 1;
    std::int64_t height = 28;
    std::int64_t width = 28;
    std::int64_t classes = 10;
    double noise = 0.25;  // largest change of a pixel, as a share of the full range
  };
  // Throws Error(kBadInput) for options outside their range.
  SyntheticImages(Part part, const Options& options);

 private:
  // The position of a row or column on the coarse grid of a pattern: the cell, and the offset in 256ths of a
  // cell.
  struct GridPosition {
    int cell;
    int fraction;
  };
  static std::vector<GridPosition> grid_positions(std::int64_t count);
  void draw(std::uint64_t index, void* input, void* target) const override;

  int noise_amplitude_;  // in pixel values
  std::vector<GridPosition> rows_;
  std::vector<GridPosition> columns_;
};

// Token sequences that rise by a stride of their own, with occasional jumps. The target is the next token,
// which depends on the previous two tokens, so a model has to look back.
class SyntheticTokens final : public DiscreteSource {
 public:
  struct Options {
    std::int64_t samples = 10'000;
    std::int64_t length = 128;
    std::int64_t vocabulary = 256;
  };
  // Throws Error(kBadInput) for options out of range, and for options that leave one part without samples.
  SyntheticTokens(Part part, const Options& options);

 private:
  void draw_any(SplitMix64& random, std::int64_t* input, std::int64_t* target) const override;

  std::uint64_t length_;
  std::uint64_t vocabulary_;
};

}  // namespace distbelief::data
