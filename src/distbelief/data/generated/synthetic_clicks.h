#pragma once

#include "distbelief/data/generated/generated_source.h"

namespace distbelief::data {

// Impressions as ids (user, item and so on), and whether the user clicked. Each field has its own ids; the id
// of rank r is about 1/r as frequent as the first, so most ids never occur and a few occur very often. Every
// id has a leaning, and the ids of the first two fields (user and item) also have a taste in four directions;
// their sum decides the probability of a click. Everything derives from the ids, so it takes no memory.
class SyntheticClicks final : public GeneratedSource {
 public:
  struct Options {
    std::int64_t samples = 1'000'000;
    std::int64_t fields = 8;
    std::int64_t ids = 100'000'000;  // in all fields together
    double noise = 0.5;              // largest change of the sum
  };
  // Throws Error(kBadInput) for options out of range.
  SyntheticClicks(Part part, const Options& options);

  // The true probability of a click: the upper bound for any model.
  double truth(const std::int64_t* ids) const;

 private:
  void draw(std::uint64_t index, void* input, void* target) const override;

  Options options_;
};

}  // namespace distbelief::data
