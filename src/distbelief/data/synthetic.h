#pragma once

#include <cstdint>
#include <vector>

#include "distbelief/data/source.h"

// Data that needs no files: every sample is computed from its index, in integer arithmetic, so it is the
// same on every machine and takes no memory however many there are.
namespace distbelief::data {

// The two parts of a generated set: the same classes or grammar, other samples.
enum class Part { kTrain, kTest };

// Images of class index % classes: a smooth pattern that belongs to the class, and noise of the sample.
class SyntheticImages : public Source {
 public:
  struct Options {
    std::int64_t samples = 60'000;
    std::int64_t channels = 1;
    std::int64_t height = 28;
    std::int64_t width = 28;
    std::int64_t classes = 10;
    double noise = 0.25;  // the most a pixel is changed, as a share of the whole range
  };
  // Throws Error(kBadInput) for options outside their range.
  SyntheticImages(Part part, const Options& options);

  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t index, void* input, void* target) const override;

 private:
  // Where a row or column lies on the coarse grid that a pattern is drawn from: cell and 256ths beyond it.
  struct GridPosition {
    int cell;
    int fraction;
  };
  static std::vector<GridPosition> grid_positions(std::int64_t count);

  Part part_;
  std::uint64_t size_;
  int noise_amplitude_;  // in pixel values
  std::vector<GridPosition> rows_;
  std::vector<GridPosition> columns_;
};

// Token sequences that climb by a stride of their own and now and then jump. The target is the next token:
// it can be told from the two before it, not from one, so a model has to look back.
class SyntheticTokens : public Source {
 public:
  struct Options {
    std::int64_t samples = 10'000;
    std::int64_t length = 128;
    std::int64_t vocabulary = 256;
  };
  // Throws Error(kBadInput) for options outside their range.
  SyntheticTokens(Part part, const Options& options);

  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t index, void* input, void* target) const override;

 private:
  Part part_;
  std::uint64_t size_;
  std::uint64_t length_;
  std::uint64_t vocabulary_;
};

}  // namespace distbelief::data
