#pragma once

#include <cstdint>

#include "distbelief/base/random.h"
#include "distbelief/data/source.h"

namespace distbelief::data {

// The two parts of a generated set have the same classes or grammar, but different samples.
enum class Part { kTrain, kTest };

// A data set without files. Every sample is computed from its index, so it is the same on every machine and
// takes no memory. A subclass computes a sample in draw(). Any thread may call read(), as with every Source.
class GeneratedSource : public Source {
 public:
  std::uint64_t size() const final { return size_; }
  void read(std::uint64_t index, void* input, void* target) const final;

 protected:
  // Throws Error(kBadInput) unless there are 1 to 2^62 samples.
  GeneratedSource(Part part, std::int64_t samples);
  // The random generator of one sample. Each kind of set has its own `stream`, so no two kinds draw the same.
  SplitMix64 randomness(std::uint64_t stream, std::uint64_t index) const;
  Part part() const { return part_; }

 private:
  virtual void draw(std::uint64_t index, void* input, void* target) const = 0;

  Part part_;
  std::uint64_t size_;
};

// A generated set of whole numbers, in which draws may repeat. The hash of a sample's input assigns it to one
// part, and drawing repeats until the sample belongs to the requested part: no test sample is ever a training
// sample.
class DiscreteSource : public GeneratedSource {
 protected:
  struct Kind {
    std::uint64_t stream;  // separates its random numbers
    const char* name;      // data set, for messages
    const char* advice;    // names the options that allow more distinct samples
  };
  DiscreteSource(Part part, std::int64_t samples, const Kind& kind);
  // Call at the end of a constructor. Throws Error(kBadInput) when every draw belongs to the other part.
  void require_samples() const;

 private:
  void draw(std::uint64_t index, void* input, void* target) const final;
  // Draws a sample of either part.
  virtual void draw_any(SplitMix64& random, std::int64_t* input, std::int64_t* target) const = 0;

  Kind kind_;
};

// Throws Error(kBadInput) unless the value of option `name` is in [least, most].
void check_generated(const char* name, std::int64_t value, std::int64_t least, std::int64_t most);

}  // namespace distbelief::data
