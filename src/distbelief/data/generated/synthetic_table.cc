#include "distbelief/data/generated/synthetic_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "distbelief/base/error.h"
#include "distbelief/base/random.h"

namespace distbelief::data {
namespace {

constexpr std::uint64_t kTableStream = 5;
constexpr std::uint64_t kRuleStream = 6;
constexpr std::int64_t kMostColumns = 1 << 16;
constexpr double kProduct = 2.0;  // weight of the product of the first two numbers

double signed_unit(SplitMix64& random) { return 2.0 * random.uniform() - 1.0; }

void check_table(const SyntheticTable::Options& options) {
  if (options.numbers >= 3 && options.numbers <= kMostColumns && options.categories >= 2 &&
      options.categories <= kMostColumns && options.noise >= 0)
    return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("synthetic_table wants at least 3 numbers, 2 categories and noise of 0 or "
                          "more, found {}, {} and {}",
                          options.numbers, options.categories, options.noise));
}

}  // namespace

SyntheticTable::SyntheticTable(Part part, const Options& options)
    : GeneratedSource(part, options.samples),
      options_(options) {
  check_table(options);
  SplitMix64 rule(derive_seed({kRuleStream}));
  for (std::int64_t i = 0; i < options.numbers; ++i) weights_.push_back(0.5 * signed_unit(rule));
  for (std::int64_t i = 0; i < options.categories; ++i) effects_.push_back(signed_unit(rule));
  spec_.input_type = ElementType::kFloat32;
  spec_.input_shape = {options.numbers + options.categories};
  if (options.target == Target::kClass)
    spec_.classes = 2;
  else
    spec_.target_type = ElementType::kFloat32;
}

void SyntheticTable::draw(std::uint64_t index, void* input, void* target) const {
  SplitMix64 random = randomness(kTableStream, index);
  auto* row = static_cast<float*>(input);
  double risk = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    row[i] = static_cast<float>(signed_unit(random));
    risk += weights_[i] * double(row[i]);
  }
  float* category = row + weights_.size();
  std::fill_n(category, effects_.size(), 0.0F);
  const std::uint64_t chosen = random.below(effects_.size());
  category[chosen] = 1.0F;
  risk += kProduct * double(row[0]) * double(row[1]) + (row[2] < 0 ? -1.0 : 1.0) * effects_[chosen];
  risk += options_.noise * signed_unit(random);
  if (options_.target == Target::kClass)
    *static_cast<std::int64_t*>(target) = risk > 0 ? 1 : 0;
  else
    *static_cast<float*>(target) = static_cast<float>(risk);
}

}  // namespace distbelief::data
