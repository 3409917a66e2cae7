#pragma once

#include "distbelief/data/generated/generated_source.h"

namespace distbelief::data {

// Rows of a made-up table of credit applications: numbers in [-1, 1] and a category as 0s and a 1. The risk
// is a sum of the numbers, of the product of the first two, and of an effect of the category that turns with
// the sign of the third; it has noise. The target is the risk, or whether it is above 0.
class SyntheticTable : public GeneratedSource {
 public:
  enum class Target { kClass, kValue };
  struct Options {
    std::int64_t samples = 20'000;
    std::int64_t numbers = 8;     // at least 3
    std::int64_t categories = 8;  // at least 2
    double noise = 0.3;           // the most that the risk is changed
    Target target = Target::kClass;
  };
  // Throws Error(kBadInput) for options outside their range.
  SyntheticTable(Part part, const Options& options);

 private:
  void draw(std::uint64_t index, void* input, void* target) const override;

  Options options_;
  std::vector<double> weights_;  // of the numbers
  std::vector<double> effects_;  // of the categories
};

}  // namespace distbelief::data
