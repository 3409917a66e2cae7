#pragma once

#include <cstdint>

#include "distbelief/base/random.h"
#include "distbelief/data/source.h"

namespace distbelief::data {

// The two parts of a generated set: the same classes or grammar, other samples.
enum class Part { kTrain, kTest };

// A set without files: every sample is computed from its index, so it is the same on every machine and takes
// no memory however many there are. A kind of set says in draw() how. As with every Source, read() may be
// called from any number of threads.
class GeneratedSource : public Source {
 public:
  std::uint64_t size() const final { return size_; }
  void read(std::uint64_t index, void* input, void* target) const final;

 protected:
  // Throws Error(kBadInput) for fewer samples than 1 or more than 2^62.
  GeneratedSource(Part part, std::int64_t samples);
  // Of one sample. Each kind of set has a stream of its own, so that no two draw the same.
  SplitMix64 randomness(std::uint64_t stream, std::uint64_t index) const;
  Part part() const { return part_; }

 private:
  virtual void draw(std::uint64_t index, void* input, void* target) const = 0;

  Part part_;
  std::uint64_t size_;
};

// A generated set of whole numbers, of which two draws may well be the same. A sample's input decides by its
// hash which part may have it, and drawing goes on until it is of the part that was asked for: no sample that
// is tested on is ever trained on.
class DiscreteSource : public GeneratedSource {
 protected:
  struct Kind {
    std::uint64_t stream;  // of its randomness
    const char* name;      // of the set
    const char* advice;    // which options make for more different samples
  };
  DiscreteSource(Part part, std::int64_t samples, const Kind& kind);
  // For the end of a constructor. Throws Error(kBadInput) when all that can be drawn is of the other part.
  void require_samples() const;

 private:
  void draw(std::uint64_t index, void* input, void* target) const final;
  // Of either part.
  virtual void draw_any(SplitMix64& random, std::int64_t* input, std::int64_t* target) const = 0;

  Kind kind_;
};

// Throws Error(kBadInput) unless option `name` is in [least, most].
void check_generated(const char* name, std::int64_t value, std::int64_t least, std::int64_t most);

}  // namespace distbelief::data
