#pragma once

#include "distbelief/data/generated/generated_source.h"

namespace distbelief::data {

// What somebody was shown, as ids, and whether it was clicked. Each field has ids of its own; in each the
// id of rank r comes about 1/r as often as the first, so that most ids are never seen and some very often.
// Every id has a leaning of its own, and those of the first two fields (who, what) a taste in four
// directions; their sum decides how likely a click is. All of it comes from the ids, so it takes no memory.
class SyntheticClicks final : public GeneratedSource {
 public:
  struct Options {
    std::int64_t samples = 1'000'000;
    std::int64_t fields = 8;
    std::int64_t ids = 100'000'000;  // of all fields together
    double noise = 0.5;              // the most that the sum is changed
  };
  // Throws Error(kBadInput) for options out of range.
  SyntheticClicks(Part part, const Options& options);

  // How likely a click is, by the rule itself: what no model can beat.
  double truth(const std::int64_t* ids) const;

 private:
  void draw(std::uint64_t index, void* input, void* target) const override;

  Options options_;
};

}  // namespace distbelief::data
