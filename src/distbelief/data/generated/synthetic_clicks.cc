#include "distbelief/data/generated/synthetic_clicks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "distbelief/base/error.h"
#include "distbelief/base/random.h"

namespace distbelief::data {
namespace {

constexpr std::uint64_t kClickStream = 11;
constexpr std::uint64_t kLeaningStream = 12;
constexpr int kTastes = 4;
constexpr double kBias = -1.0;  // makes clicks rarer than non-clicks
constexpr double kTasteWeight = 1.5;

double signed_unit_of(SplitMix64& random) { return 2.0 * random.uniform() - 1.0; }

}  // namespace

SyntheticClicks::SyntheticClicks(Part part, const Options& options)
    : GeneratedSource(part, options.samples),
      options_(options) {
  check_generated("fields", options.fields, 2, 256);
  check_generated("ids", options.ids, options.fields * 2, std::int64_t{1} << 60);
  if (!(options.noise >= 0))
    throw Error(ErrorCode::kBadInput,
                fmt::format("option 'noise' of synthetic_clicks must be 0 or more, it is {}", options.noise),
                {.key = "data.noise"});
  spec_.input_type = ElementType::kInt64;
  spec_.input_shape = {options.fields};
  spec_.classes = 2;
}

double SyntheticClicks::truth(const std::int64_t* ids) const {
  double sum = kBias, taste = 0;
  double first[kTastes] = {};
  for (std::int64_t field = 0; field < options_.fields; ++field) {
    SplitMix64 leaning(derive_seed({kLeaningStream, std::uint64_t(ids[field])}));
    sum += signed_unit_of(leaning) * 2.0 / std::sqrt(double(options_.fields));
    for (int i = 0; field < 2 && i < kTastes; ++i) {
      const double direction = signed_unit_of(leaning);
      if (field == 0)
        first[i] = direction;
      else
        taste += first[i] * direction;
    }
  }
  return 1.0 / (1.0 + std::exp(-(sum + kTasteWeight * taste)));
}

void SyntheticClicks::draw(std::uint64_t index, void* input, void* target) const {
  SplitMix64 random = randomness(kClickStream, index);
  auto* const ids = static_cast<std::int64_t*>(input);
  const std::int64_t each = options_.ids / options_.fields;
  for (std::int64_t field = 0; field < options_.fields; ++field) {
    const auto rank = std::int64_t(std::exp(random.uniform() * std::log(double(each)))) - 1;
    ids[field] = field * each + std::clamp<std::int64_t>(rank, 0, each - 1);
  }
  const double chance = truth(ids);
  const double noise = options_.noise * signed_unit_of(random);
  const double noisy = 1.0 / (1.0 + (1.0 - chance) / std::max(chance, 1e-12) * std::exp(-noise));
  *static_cast<std::int64_t*>(target) = random.uniform() < noisy ? 1 : 0;
}

}  // namespace distbelief::data
