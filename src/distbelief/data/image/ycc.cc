#include "distbelief/data/image/ycc.h"

#include <algorithm>
#include <bit>

#include "distbelief/base/error.h"
#include "distbelief/base/simd.h"

namespace distbelief::data {
namespace {

static_assert(std::endian::native == std::endian::little, "two pixels lie in a 16-bit number");

// Along each axis a pixel takes 3/4 of the nearer colour sample and 1/4 of the other. The values added before
// the division by 16 make neighbouring pixels round in opposite directions, so no colour is favoured.
struct Rounding {
  std::uint16_t left = 0;
  std::uint16_t right = 0;
};
constexpr Rounding kAcrossAndDown{8, 7};
constexpr Rounding kAcross{4, 8};

// Blends two rows, in quarters of a sample.
DISTBELIEF_MULTIVERSION
void blend_rows(const std::uint8_t* __restrict nearer, const std::uint8_t* __restrict farther,
                std::size_t count, std::uint16_t* __restrict out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::uint16_t>(nearer[i] * 3 + farther[i]);
}

// Pair i blends sums[i + 1] with its left neighbour, then with its right one.
DISTBELIEF_MULTIVERSION
void blend_columns(const std::uint16_t* __restrict sums, std::size_t count, Rounding rounding,
                   std::uint16_t* __restrict pairs) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto tripled = static_cast<std::uint16_t>(sums[i + 1] * 3);
    const auto left = static_cast<std::uint16_t>(tripled + sums[i] + rounding.left);
    const auto right = static_cast<std::uint16_t>(tripled + sums[i + 2] + rounding.right);
    pairs[i] = static_cast<std::uint16_t>((left >> 4) | ((right >> 4) << 8));
  }
}

inline std::uint8_t to_byte(std::int16_t value) {
  return static_cast<std::uint8_t>(std::clamp<std::int16_t>(value, 0, 255));
}

// Computes (value * factor + 2^15) >> 16 for value = doubled / 2: the high half of the 16-bit product, halved
// and rounded.
inline std::int16_t rounded_share(std::int16_t doubled, std::int32_t factor) {
  const auto high = static_cast<std::int16_t>((doubled * factor) >> 16);
  return static_cast<std::int16_t>((high + 1) >> 1);
}

// red = y + 1.402 v, green = y - 0.34414 u - 0.71414 v, blue = y + 1.772 u. A factor of 2^16 that does not
// fit in 16 bits is split into an integer and a fraction.
DISTBELIEF_MULTIVERSION
void mix_row(const std::uint8_t* __restrict brightness, const std::uint8_t* __restrict blueness,
             const std::uint8_t* __restrict redness, std::size_t count, std::uint8_t* __restrict red,
             std::uint8_t* __restrict green, std::uint8_t* __restrict blue) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto y = static_cast<std::int16_t>(brightness[i]);
    const auto u = static_cast<std::int16_t>(blueness[i] - 128);
    const auto v = static_cast<std::int16_t>(redness[i] - 128);
    const auto u2 = static_cast<std::int16_t>(2 * u);
    const auto v2 = static_cast<std::int16_t>(2 * v);
    const auto greener = static_cast<std::int16_t>((u * -22'554 + v * 18'734 + 32'768) >> 16);
    red[i] = to_byte(static_cast<std::int16_t>(y + v + rounded_share(v2, 26'345)));
    green[i] = to_byte(static_cast<std::int16_t>(y - v + greener));
    blue[i] = to_byte(static_cast<std::int16_t>(y + u2 + rounded_share(u2, -14'942)));
  }
}

// The nearer one of the colour rows beside the pixel's own colour row.
std::uint32_t other_row(std::uint32_t y, std::uint32_t rows) {
  const std::uint32_t own = y / 2;
  if (y % 2 == 0) return own == 0 ? 0 : own - 1;
  return std::min(own + 1, rows - 1);
}

}  // namespace

void YccMixer::crop(const YccPicture& picture, const FitPlan& plan, std::uint8_t* planes) {
  DISTBELIEF_INVARIANT(plan.across.source == plan.across.resized && plan.down.source == plan.down.resized);
  const auto first = static_cast<std::uint32_t>(plan.across.first);
  const std::uint32_t count = plan.across.outputs;
  for (Columns* columns : {&blue_, &red_}) {
    columns->first = first;
    columns->count = count;
  }
  const std::size_t plane = std::size_t{count} * plan.down.outputs;
  for (std::uint32_t row = 0; row < plan.down.outputs; ++row, planes += count) {
    const auto y = static_cast<std::uint32_t>(plan.down.first + row);
    mix_row(picture.planes[0].row(y) + first, spread(picture, 1, y, blue_), spread(picture, 2, y, red_),
            count, planes, planes + plane, planes + 2 * plane);
  }
}

const std::uint8_t* YccMixer::spread(const YccPicture& picture, std::size_t which, std::uint32_t y,
                                     Columns& columns) {
  const YccPicture::Plane& plane = picture.planes[which];
  if (picture.colour == YccPicture::Colour::kEveryPixel) return plane.row(y) + columns.first;
  const bool across_only = picture.colour == YccPicture::Colour::kHalfAcross;
  const std::uint8_t* own = plane.row(across_only ? y : y / 2);
  const std::uint8_t* other = across_only ? own : plane.row(other_row(y, plane.height));
  const std::uint32_t begin = columns.first / 2;
  const std::uint32_t end = (columns.first + columns.count + 1) / 2;  // the colour samples of these pixels
  const std::uint32_t known_begin = std::max(begin, 1U) - 1, known_end = std::min(end + 1, plane.width);
  columns.sums.resize(end - begin + 2);
  columns.pairs.resize(end - begin);
  std::uint16_t* sums = columns.sums.data();
  blend_rows(own + known_begin, other + known_begin, known_end - known_begin, sums + (begin == 0 ? 1 : 0));
  if (begin == 0) sums[0] = sums[1];
  if (end == plane.width) sums[end - begin + 1] = sums[end - begin];
  blend_columns(sums, end - begin, across_only ? kAcross : kAcrossAndDown, columns.pairs.data());
  return reinterpret_cast<const std::uint8_t*>(columns.pairs.data()) + columns.first % 2;
}

}  // namespace distbelief::data
