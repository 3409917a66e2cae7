#pragma once

#include "distbelief/data/generated/generated_source.h"

namespace distbelief::data {

// Rows of a synthetic table of credit applications: numbers in [-1, 1] and a one-hot category. The risk sums
// the weighted numbers, the product of the first two numbers, an effect of the category whose sign follows
// the third number, and noise. The target is the risk, or whether it is positive.
class SyntheticTable : public GeneratedSource {
 public:
  enum class Target { kClass, kValue };
  struct Options {
    std::int64_t samples = 20'000;
    std::int64_t numbers = 8;     // at least 3
    std::int64_t categories = 8;  // at least 2
    double noise = 0.3;           // largest change of the risk
    Target target = Target::kClass;
  };
  // Throws Error(kBadInput) for options outside their range.
  SyntheticTable(Part part, const Options& options);

 private:
  void draw(std::uint64_t index, void* input, void* target) const override;

  Options options_;
  std::vector<double> weights_;  // one per number
  std::vector<double> effects_;  // one per category
};

}  // namespace distbelief::data
