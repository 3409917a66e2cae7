#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "distbelief/base/array.h"
#include "distbelief/base/config.h"
#include "distbelief/data/pipeline/sampling.h"

namespace distbelief::data {

// Marks a position of a target that has no class, as in padded sentences.
inline constexpr std::int64_t kNoTarget = -100;

// The format of one sample; models take their shapes from it.
struct SampleSpec {
  // kUint8: images, which become float32 in a batch; kInt64: tokens; kFloat32: features.
  ElementType input_type = ElementType::kUint8;
  Shape input_shape;  // images: channels, height, width; tokens: length; features: count
  // kInt64: classes in [0, classes), or task-specific numbers; kFloat32: values to predict.
  ElementType target_type = ElementType::kInt64;
  Shape target_shape;                      // {}: one class or value per sample; tokens: length
  std::int64_t classes = 0;                // token sets: the vocabulary; 0: targets are not classes
  std::vector<std::string> class_names{};  // one per class; empty when classes are only numbered
  // Trees (kInt64 input): upper bound of the tokens at nodes; 0: unknown.
  std::int64_t input_tokens = 0;
  // 0: every element of a target is a class. Otherwise elements may be kNoTarget, and this is the mean share
  // of the others over the training samples.
  double target_share = 0;
  std::vector<float> mean;  // per channel, of input / 255; empty: no normalisation known
  std::vector<float> deviation;
  // Values in the user's unit: value * unit + mean.
  double target_unit = 1;
  double target_mean = 0;
  bool table_features = false;  // the input is encoded from a table's columns, not their raw numbers
};

// Whether targets are classes, one or more per sample.
inline bool has_class_targets(const SampleSpec& spec) {
  return spec.classes > 0 && spec.target_type == ElementType::kInt64;
}
inline bool is_class(const SampleSpec& spec, std::int64_t target) {
  const bool may_lack = spec.target_share > 0 && !spec.target_shape.empty();
  return (target >= 0 && target < spec.classes) || (target == kNoTarget && may_lack);
}

// Whether samples are trees: the token and the parent of each node.
inline bool has_trees(const SampleSpec& spec) {
  return spec.input_type == ElementType::kInt64 && spec.input_shape.size() == 2 && spec.input_shape[1] == 2 &&
         spec.input_tokens > 0;
}
// Whether every input token is a class, and so is its target.
inline bool has_tokens(const SampleSpec& spec) {
  return spec.input_type == ElementType::kInt64 && has_class_targets(spec) && !has_trees(spec) &&
         spec.input_shape == spec.target_shape;
}
// Upper bound of the input tokens, of sequences or trees; 0: unknown, as for ids.
inline std::int64_t input_limit(const SampleSpec& spec) {
  return has_tokens(spec) ? spec.classes : has_trees(spec) ? spec.input_tokens : 0;
}

// Indexed samples. Implementations provide size() and read(); the other functions have defaults. Immutable
// after construction, so any number of threads may call read().
class Source {
 public:
  virtual ~Source() = default;
  virtual std::uint64_t size() const = 0;
  // Writes sample `index` (< size()): element_count(input_shape) elements of input_type to `input`, and
  // element_count(target_shape) elements of target_type to `target`. Does not allocate on the fast path.
  virtual void read(std::uint64_t index, void* input, void* target) const = 0;

  // Reads only elements [begin, begin + count) of the input, and the target; some sources then read only
  // those from storage. With a count of 0, image sources read the target without decoding.
  virtual void read_columns(std::uint64_t index, std::uint64_t begin, std::uint64_t count, void* input,
                            void* target) const;

  // Hints that read(index) follows soon: a source in memory prefetches it into the cache.
  virtual void expect(std::uint64_t) const {}

  // How samples are grouped in storage; the order of an epoch (order.h) follows it.
  virtual Locality locality() const { return {}; }
  // Hints that samples [begin, end) are needed soon, in any order: a source that reads many at once loads
  // them in the background. Does not block.
  virtual void announce(Range) const {}

  const SampleSpec& spec() const { return spec_; }

 protected:
  SampleSpec spec_;
};

struct Learnt;

struct DataSet {
  std::unique_ptr<Source> train;
  std::unique_ptr<Source> test;
  // The fitted preprocessing (learnt.h), shared with its users; null when nothing is known.
  std::shared_ptr<const Learnt> learnt{};
  // Number of samples from which the test part was drawn by index; 0: the files define the test part.
  std::uint64_t held_out_of = 0;
};

}  // namespace distbelief::data
