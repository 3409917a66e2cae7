#pragma once

#include <cstdint>
#include <vector>

#include "distbelief/base/array.h"
#include "distbelief/data/pipeline/order.h"
#include "distbelief/data/source.h"

namespace distbelief::data {

// The samples of one lane in one step. Images are float32, scaled to [0, 1] and optionally normalised; tokens
// and features stay unchanged. An empty lane has size 0.
struct Batch {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;  // within the epoch
  std::uint64_t lane = 0;
  std::uint64_t size = 0;
  Array input;                         // [size, input_shape...]
  Array target;                        // [size, target_shape...]
  std::vector<std::uint64_t> samples;  // sample indices, in order
  std::vector<std::uint8_t> raw;       // working memory of BatchMaker: one image as the source stores it
};

// Throws Error(kBadInput) unless samples are images: only images can be augmented.
void require_augmentable(const SampleSpec& spec);

// Fills one batch: reads, converts, augments, normalises. Pure: randomness depends only on (seed, epoch,
// sample). Borrows the source, which must outlive it. Any number of threads may fill different batches at
// once. Refilling a batch reuses its memory.
class BatchMaker {
 public:
  struct Options {
    std::uint64_t seed = 0;
    bool normalize = true;
    bool augment_pad_crop = false;
    bool augment_flip = false;
    int pad = 4;
  };
  // Throws Error(kBadInput) when augmentation is on and the samples are not images.
  BatchMaker(const Source& source, Options options);

  // Fills positions `range` of the epoch's order, with augmentation. Leaves out.step and out.lane unchanged.
  void train_batch(const Order& order, std::uint64_t epoch, Range range, Batch& out) const;
  // Fills samples `range` in index order, without augmentation.
  void eval_batch(Range range, Batch& out) const;

  const Source& source() const { return source_; }

  // How the bytes of a channel become floats when the image is not moved.
  struct Conversion {
    float mean = 0;
    float deviation = 1;
    bool exact = false;  // vector arithmetic gives the same bits as the table
  };
  enum class Writing { kThroughCaches, kPastCaches };

 private:
  // The position of an output image on its source: output (y, x) shows source (y + down, x + right).
  struct Placement {
    std::int64_t down = 0;
    std::int64_t right = 0;
    bool mirrored = false;
  };

  void prepare(std::uint64_t size, Batch& out) const;
  void read_sample(std::uint64_t slot, const Placement& placement, Batch& out) const;
  Placement draw_placement(std::uint64_t epoch, std::uint64_t sample) const;
  void convert(const std::uint8_t* raw, Writing writing, float* out) const;
  void convert_placed(const std::uint8_t* raw, const Placement& placement, Writing writing, float* out) const;

  const Source& source_;
  Options options_;
  std::int64_t input_elements_;  // per sample
  std::size_t target_bytes_;     // per sample
  std::int64_t channels_;
  std::vector<Conversion> conversions_;  // per channel
  std::vector<float> table_;             // [channels_, 256]: the float of each byte
};

}  // namespace distbelief::data
