#pragma once

#include <cstdint>
#include <vector>

#include "distbelief/base/array.h"
#include "distbelief/data/pipeline/order.h"
#include "distbelief/data/source.h"

namespace distbelief::data {

// What one lane works on in one step. Images are float32, scaled to [0, 1] and normalised when asked;
// tokens and features stay as they are. An empty lane has size 0.
struct Batch {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;  // within the epoch
  std::uint64_t lane = 0;
  std::uint64_t size = 0;
  Array input;                         // [size, input_shape...]
  Array target;                        // [size, target_shape...]
  std::vector<std::uint64_t> samples;  // which ones, in order
  std::vector<std::uint8_t> raw;       // working space of BatchMaker: one image as the source gives it
};

// Throws Error(kBadInput) when samples are not images, which alone can be augmented.
void require_augmentable(const SampleSpec& spec);

// Fills one batch: reads, converts, augments, normalises. Pure: randomness is (seed, epoch, sample).
// Borrows the source, which must outlive it. Any number of threads may fill different batches at once.
// A batch that is filled again keeps its memory.
class BatchMaker {
 public:
  struct Options {
    std::uint64_t seed = 0;
    bool normalize = true;
    bool augment_pad_crop = false;
    bool augment_flip = false;
    int pad = 4;
  };
  // Throws Error(kBadInput) when augmentation is asked for and the samples are not images.
  BatchMaker(const Source& source, Options options);

  // Positions [range) of the epoch's order, augmented. Leaves out.step and out.lane alone.
  void train_batch(const Order& order, std::uint64_t epoch, Range range, Batch& out) const;
  // Samples [range) in index order, without augmentation.
  void eval_batch(Range range, Batch& out) const;

  const Source& source() const { return source_; }

  // How a channel's bytes become floats when an image stays where it is.
  struct Conversion {
    float mean = 0;
    float deviation = 1;
    bool exact = false;  // arithmetic has the table's bits
  };
  enum class Writing { kThroughCaches, kPastCaches };

 private:
  // Where an output image lies on its source: output (y, x) shows source (y + down, x + right).
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
  std::int64_t input_elements_;  // of one sample
  std::size_t target_bytes_;     // of one sample
  std::int64_t channels_;
  std::vector<Conversion> conversions_;  // per channel
  std::vector<float> table_;             // [channels_, 256]: what each byte becomes
};

}  // namespace distbelief::data
