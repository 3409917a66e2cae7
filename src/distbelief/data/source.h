#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "distbelief/base/array.h"
#include "distbelief/base/config.h"

namespace distbelief::data {

// What one sample looks like; models take their shapes from it.
struct SampleSpec {
  ElementType input_type = ElementType::kUint8;  // kUint8 images become float32 in a batch; kInt64 are tokens
  Shape input_shape;                             // images: channels, height, width; tokens: length
  Shape target_shape;                            // {} for one class index per sample; tokens: length
  std::int64_t classes = 0;  // targets are int64 in [0, classes); token sets: the vocabulary
  std::vector<float> mean;   // per channel, of input / 255; empty: no normalisation known
  std::vector<float> deviation;
};

// A set of samples by index. size() and read() carry it; everything else wraps it. Implementations are
// immutable after construction, so read() may be called from any number of threads.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::uint64_t size() const = 0;
  // Writes sample `index` (< size()): element_count(input_shape) elements of input_type to `input`,
  // element_count(target_shape) int64 to `target`. Does not allocate on the fast path.
  virtual void read(std::uint64_t index, std::byte* input, std::int64_t* target) const = 0;

  // The same of the input's elements [begin, begin + count) alone: a source that can reads no others.
  virtual void read_columns(std::uint64_t index, std::uint64_t begin, std::uint64_t count, std::byte* input,
                            std::int64_t* target) const;

  // A hint that read(index) comes soon: a source in memory fetches it into the cache.
  virtual void expect(std::uint64_t) const {}

  const SampleSpec& spec() const { return spec_; }

 protected:
  SampleSpec spec_;
};

struct DataSet {
  std::unique_ptr<Source> train;
  std::unique_ptr<Source> test;
};

}  // namespace distbelief::data
