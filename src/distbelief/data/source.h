#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "distbelief/base/array.h"
#include "distbelief/base/config.h"
#include "distbelief/data/pipeline/sampling.h"

namespace distbelief::data {

// In place of a class in a target of several: nothing is wanted there (a sentence that is shorter than
// others).
inline constexpr std::int64_t kNoTarget = -100;

// What one sample looks like; models take their shapes from it.
struct SampleSpec {
  // Bytes are images and become float32 in a batch; kInt64 are tokens; kFloat32 are features.
  ElementType input_type = ElementType::kUint8;
  Shape input_shape;  // images: channels, height, width; tokens: length; features: how many
  // kInt64: classes in [0, classes), or what else the task reads in them; kFloat32: values to predict.
  ElementType target_type = ElementType::kInt64;
  Shape target_shape;                      // {} for one class or value per sample; tokens: length
  std::int64_t classes = 0;                // token sets: the vocabulary; 0: targets are not classes
  std::vector<std::string> class_names{};  // one each, or none where they are known by number only
  // kInt64 input of trees: what stands at nodes is below this; 0: not known.
  std::int64_t input_tokens = 0;
  // 0: every element of a target is a class. Otherwise some may be kNoTarget; this share of them is not, on
  // average over the samples to train on.
  double target_share = 0;
  std::vector<float> mean;  // per channel, of input / 255; empty: no normalisation known
  std::vector<float> deviation;
  // Values in what people measure: value * unit + mean.
  double target_unit = 1;
  double target_mean = 0;
  bool table_features = false;  // input made of a table's columns: not the numbers that stand there
};

// Whether targets are classes, one or several of each sample.
inline bool has_class_targets(const SampleSpec& spec) {
  return spec.classes > 0 && spec.target_type == ElementType::kInt64;
}
inline bool is_class(const SampleSpec& spec, std::int64_t target) {
  const bool may_lack = spec.target_share > 0 && !spec.target_shape.empty();
  return (target >= 0 && target < spec.classes) || (target == kNoTarget && may_lack);
}

// Trees: nodes of what stands there and where the parent is.
inline bool has_trees(const SampleSpec& spec) {
  return spec.input_type == ElementType::kInt64 && spec.input_shape.size() == 2 && spec.input_shape[1] == 2 &&
         spec.input_tokens > 0;
}
// Samples in which every token is a class, and so is the one that is wanted in its place.
inline bool has_tokens(const SampleSpec& spec) {
  return spec.input_type == ElementType::kInt64 && has_class_targets(spec) && !has_trees(spec) &&
         spec.input_shape == spec.target_shape;
}
// What tokens, and what stands at nodes of trees, is below this; 0: not known, as of ids.
inline std::int64_t input_limit(const SampleSpec& spec) {
  return has_tokens(spec) ? spec.classes : has_trees(spec) ? spec.input_tokens : 0;
}

// A set of samples by index. size() and read() carry it; everything else wraps it. Implementations are
// immutable after construction, so read() may be called from any number of threads.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::uint64_t size() const = 0;
  // Writes sample `index` (< size()): element_count(input_shape) elements of input_type to `input`,
  // element_count(target_shape) of target_type to `target`. Does not allocate on the fast path.
  virtual void read(std::uint64_t index, void* input, void* target) const = 0;

  // The same of the input's elements [begin, begin + count) alone: a source that can reads no others. With a
  // count of 0 it is the target alone, for which images are not decoded.
  virtual void read_columns(std::uint64_t index, std::uint64_t begin, std::uint64_t count, void* input,
                            void* target) const;

  // A hint that read(index) comes soon: a source in memory fetches it into the cache.
  virtual void expect(std::uint64_t) const {}

  // How samples lie together; an epoch's order (order.h) follows it.
  virtual Locality locality() const { return {}; }
  // A hint that samples [begin, end) are wanted soon, in any order: a source that reads many at once brings
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
  // How files become samples (learnt.h), shared with who keeps it; null where nothing is known.
  std::shared_ptr<const Learnt> learnt{};
  // How many samples those to test on were drawn from by number; 0: files say which they are.
  std::uint64_t held_out_of = 0;
};

}  // namespace distbelief::data
