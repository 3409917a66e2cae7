#include "distbelief/data/generated_source.h"

#include <fmt/format.h>

#include "distbelief/base/error.h"

namespace distbelief::data {
namespace {

constexpr std::int64_t kMostGenerated = std::int64_t{1} << 62;

}  // namespace

void check_generated(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("option '{}' of a generated data set must be {} to {}, it is {}", name, least, most,
                          value));
}

GeneratedSource::GeneratedSource(Part part, std::int64_t samples) : part_(part), size_(0) {
  check_generated("samples", samples, 1, kMostGenerated);
  size_ = static_cast<std::uint64_t>(samples);
}

void GeneratedSource::read(std::uint64_t index, void* input, void* target) const {
  DISTBELIEF_INVARIANT(index < size_);
  draw(index, input, target);
}

SplitMix64 GeneratedSource::randomness(std::uint64_t stream, std::uint64_t index) const {
  return SplitMix64(derive_seed({stream, part_ == Part::kTrain ? 0U : 1U, index}));
}

}  // namespace distbelief::data
