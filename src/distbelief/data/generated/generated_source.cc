#include "distbelief/data/generated/generated_source.h"

#include <fmt/format.h>

#include <span>

#include "distbelief/base/error.h"

namespace distbelief::data {
namespace {

constexpr std::int64_t kMostGenerated = std::int64_t{1} << 62;
constexpr std::uint64_t kTestShare = 4;  // one in so many inputs belongs to the test part
// A part counts as empty when so many draws miss it. With few distinct samples each is drawn often, and with
// many a quarter of them are test samples: each part gets at least one draw in some hundreds.
constexpr int kMostDraws = 1 << 12;

Part part_of(std::span<const std::int64_t> input) {
  std::uint64_t hash = 0;
  for (const std::int64_t number : input) hash = derive_seed({hash, static_cast<std::uint64_t>(number)});
  return hash % kTestShare == 0 ? Part::kTest : Part::kTrain;
}

}  // namespace

void check_generated(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("option '{}' of a generated data set must be {} to {}, it is {}", name, least, most, value),
      {.key = std::string("data.") + name});
}

GeneratedSource::GeneratedSource(Part part, std::int64_t samples) : part_(part), size_(0) {
  check_generated(part == Part::kTrain ? "samples" : "test_samples", samples, 1, kMostGenerated);
  size_ = static_cast<std::uint64_t>(samples);
}

void GeneratedSource::read(std::uint64_t index, void* input, void* target) const {
  DISTBELIEF_INVARIANT(index < size_);
  draw(index, input, target);
}

SplitMix64 GeneratedSource::randomness(std::uint64_t stream, std::uint64_t index) const {
  return SplitMix64(derive_seed({stream, part_ == Part::kTrain ? 0U : 1U, index}));
}

DiscreteSource::DiscreteSource(Part part, std::int64_t samples, const Kind& kind)
    : GeneratedSource(part, samples),
      kind_(kind) {}

void DiscreteSource::require_samples() const {
  std::vector<std::int64_t> input(static_cast<std::size_t>(element_count(spec_.input_shape)));
  std::vector<std::int64_t> target(static_cast<std::size_t>(element_count(spec_.target_shape)));
  draw(0, input.data(), target.data());
}

void DiscreteSource::draw(std::uint64_t index, void* input, void* target) const {
  SplitMix64 random = randomness(kind_.stream, index);
  auto* const numbers = static_cast<std::int64_t*>(input);
  const auto count = static_cast<std::size_t>(element_count(spec_.input_shape));
  for (int draws = 0; draws < kMostDraws; ++draws) {
    draw_any(random, numbers, static_cast<std::int64_t*>(target));
    if (part_of({numbers, count}) == part()) return;
  }
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("{} has too few different samples: none of {} is one to {} on, as those to train on "
                  "and to test on must differ; {}",
                  kind_.name, kMostDraws, part() == Part::kTrain ? "train" : "test", kind_.advice));
}

}  // namespace distbelief::data
