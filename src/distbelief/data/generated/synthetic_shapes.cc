#include "distbelief/data/generated/synthetic_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "distbelief/base/error.h"
#include "distbelief/base/random.h"

namespace distbelief::data {
namespace {

constexpr std::uint64_t kShapeStream = 4;
constexpr std::uint64_t kMostShapes = 4;
constexpr int kKinds = 3;

struct ShapeOnImage {
  int kind = 0;  // 0 disc, 1 square, 2 triangle
  std::int64_t row = 0, column = 0, radius = 0;
  int grey = 0;

  bool covers(std::int64_t y, std::int64_t x) const {
    const std::int64_t down = y - row, right = x - column;
    if (kind == 0) return down * down + right * right <= radius * radius;
    if (std::abs(down) > radius) return false;
    return kind == 1 ? std::abs(right) <= radius : 2 * std::abs(right) <= down + radius;
  }
};

ShapeOnImage draw_shape(SplitMix64& random, std::int64_t side) {
  const auto below = [&](std::int64_t limit) { return std::int64_t(random.below(std::uint64_t(limit))); };
  ShapeOnImage shape;
  shape.kind = int(below(kKinds));
  shape.radius = side / 8 + below(std::max<std::int64_t>(1, side / 8));
  shape.row = below(side);
  shape.column = below(side);
  shape.grey = 128 + int(below(128));
  return shape;
}

}  // namespace

SyntheticShapes::SyntheticShapes(Part part, const Options& options)
    : GeneratedSource(part, options.samples),
      side_(options.size),
      noise_amplitude_(static_cast<int>(std::lround(options.noise * 255.0))) {
  if (options.size < 8 || options.size > 4096 || !(options.noise >= 0) || options.noise > 1)
    throw Error(ErrorCode::kBadInput,
                fmt::format("synthetic_shapes wants a size of 8 to 4096 and noise of 0 to 1, "
                            "found {} and {}",
                            options.size, options.noise));
  spec_.input_shape = {1, side_, side_};
  spec_.target_shape = {side_, side_};
  spec_.classes = kKinds + 1;
  spec_.mean = {0.35F};
  spec_.deviation = {0.25F};
}

void SyntheticShapes::draw(std::uint64_t index, void* input, void* target) const {
  SplitMix64 random = randomness(kShapeStream, index);
  auto* pixels = static_cast<std::uint8_t*>(input);
  auto* labels = static_cast<std::int64_t*>(target);
  const int ground = static_cast<int>(random.below(96));
  std::fill_n(pixels, side_ * side_, static_cast<std::uint8_t>(ground));
  std::fill_n(labels, side_ * side_, std::int64_t{0});
  for (std::uint64_t left = 1 + random.below(kMostShapes); left > 0; --left) {
    const ShapeOnImage shape = draw_shape(random, side_);
    for (std::int64_t i = 0; i < side_ * side_; ++i) {
      if (!shape.covers(i / side_, i % side_)) continue;
      pixels[i] = static_cast<std::uint8_t>(shape.grey);
      labels[i] = shape.kind + 1;
    }
  }
  for (std::int64_t i = 0; i < side_ * side_; ++i) {
    const int change = (2 * static_cast<int>(random.below(256)) - 255) * noise_amplitude_ / 255;
    pixels[i] = static_cast<std::uint8_t>(std::clamp(pixels[i] + change, 0, 255));
  }
}

}  // namespace distbelief::data
