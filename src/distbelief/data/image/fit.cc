#include "distbelief/data/image/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "distbelief/base/simd.h"

namespace distbelief::data {
namespace {

constexpr int kWeightBits = 14;
constexpr std::int32_t kWhole = 1 << kWeightBits;

std::uint64_t scaled(std::uint64_t side, std::uint64_t shorter, std::uint64_t resize) {
  return (2 * side * resize + shorter) / (2 * shorter);
}

DISTBELIEF_MULTIVERSION
void split_channels(const std::uint8_t* from, std::size_t count, std::uint8_t* red, std::uint8_t* green,
                    std::uint8_t* blue) {
  for (std::size_t i = 0; i < count; ++i) {
    red[i] = from[3 * i];
    green[i] = from[3 * i + 1];
    blue[i] = from[3 * i + 2];
  }
}

// Writes one row of pixels to row y of each plane.
void spread_row(const std::uint8_t* row, std::uint32_t channels, ImageSize size, std::uint32_t y,
                std::uint8_t* planes) {
  const std::size_t plane = std::size_t{size.width} * size.height;
  std::uint8_t* to = planes + std::size_t{y} * size.width;
  if (channels == 1)
    std::memcpy(to, row, size.width);
  else
    split_channels(row, size.width, to, to + plane, to + 2 * plane);
}

std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp((sum + kWhole / 2) >> kWeightBits, 0, 255));
}

}  // namespace

FitPlan plan_fit(ImageSize picture, FitSize wanted) {
  const std::uint32_t shorter = std::min(picture.width, picture.height);
  const auto axis = [&](std::uint32_t side) {
    FitAxis along{.source = side,
                  .resized = wanted.resize == 0 ? side : scaled(side, shorter, wanted.resize),
                  .outputs = wanted.crop};
    if (along.resized < wanted.crop)
      throw ImageFault(0, fmt::format("{} x {} pixels are fewer than the {} x {} wanted; set option 'resize'",
                                      picture.width, picture.height, wanted.crop, wanted.crop));
    along.first = (along.resized - wanted.crop) / 2;
    return along;
  };
  return {axis(picture.width), axis(picture.height)};
}

FitPlan plan_cover(ImageSize picture, ImageSize wanted) {
  const bool by_width =
      std::uint64_t{wanted.width} * picture.height >= std::uint64_t{wanted.height} * picture.width;
  const auto axis = [&](std::uint32_t side, std::uint32_t outputs) {
    const std::uint64_t resized =
        by_width ? scaled(side, picture.width, wanted.width) : scaled(side, picture.height, wanted.height);
    const std::uint64_t enough = std::max<std::uint64_t>(resized, outputs);
    return FitAxis{.source = side, .resized = enough, .first = (enough - outputs) / 2, .outputs = outputs};
  };
  return {axis(picture.width, wanted.width), axis(picture.height, wanted.height)};
}

void Fitter::fit(const Pixels& picture, const FitPlan& plan, std::uint8_t* planes) {
  const bool as_it_is = plan.across.source == plan.across.resized && plan.down.source == plan.down.resized;
  if (as_it_is) {
    const ImageSize size{plan.across.outputs, plan.down.outputs};
    for (std::uint32_t y = 0; y < size.height; ++y)
      spread_row(picture.row(plan.down.first + y) + plan.across.first * picture.channels, picture.channels,
                 size, y, planes);
    return;
  }
  prepare(across_, plan.across);
  prepare(down_, plan.down);
  const std::uint32_t first_row = down_.taps.front().begin;
  const std::uint32_t end_row = down_.taps.back().begin + down_.taps.back().count;
  resize_across(picture, first_row, end_row - first_row);
  resize_down(first_row, picture.channels, planes);
}

void Fitter::prepare(Filter& filter, const FitAxis& axis) {
  if (filter.axis == axis) return;
  filter = {.axis = axis, .taps = {}, .weights = {}};
  const double scale = double(axis.source) / double(axis.resized);
  const double reach = std::max(scale, 1.0);
  std::vector<double> shares;
  for (std::uint32_t p = 0; p < axis.outputs; ++p) {
    const double centre = (double(axis.first + p) + 0.5) * scale;
    const auto begin = static_cast<std::uint32_t>(std::max(0.0, std::floor(centre - reach)));
    const auto end = static_cast<std::uint32_t>(std::min(double(axis.source), std::ceil(centre + reach)));
    shares.clear();
    double sum = 0;
    for (std::uint32_t at = begin; at < end; ++at)
      sum += shares.emplace_back(std::max(0.0, 1.0 - std::abs(at + 0.5 - centre) / reach));
    filter.taps.push_back({begin, end - begin, filter.weights.size()});
    std::int32_t left = kWhole;
    std::size_t heaviest = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const auto weight = static_cast<std::int32_t>(std::lround(shares[i] / sum * kWhole));
      left -= weight;
      filter.weights.push_back(weight);
      if (shares[i] > shares[heaviest]) heaviest = i;
    }
    filter.weights[filter.taps.back().first_weight + heaviest] += left;  // uniform areas keep their value
  }
}

void Fitter::resize_across(const Pixels& picture, std::uint32_t first_row, std::uint32_t rows) {
  const std::uint32_t channels = picture.channels;
  rows_.resize(std::size_t{rows} * across_.axis.outputs * channels);
  std::uint8_t* to = rows_.data();
  for (std::uint32_t y = 0; y < rows; ++y) {
    const std::uint8_t* row = picture.row(first_row + y);
    for (const Taps& taps : across_.taps) {
      const std::int32_t* weights = across_.weights.data() + taps.first_weight;
      std::int32_t sums[3] = {};
      const std::uint8_t* from = row + std::size_t{taps.begin} * channels;
      for (std::uint32_t i = 0; i < taps.count; ++i)
        for (std::uint32_t c = 0; c < channels; ++c) sums[c] += weights[i] * *from++;
      for (std::uint32_t c = 0; c < channels; ++c) *to++ = rounded(sums[c]);
    }
  }
}

void Fitter::resize_down(std::uint32_t first_row, std::uint32_t channels, std::uint8_t* planes) {
  const ImageSize size{across_.axis.outputs, down_.axis.outputs};
  const std::size_t row_bytes = std::size_t{size.width} * channels;
  line_.resize(row_bytes);
  for (std::uint32_t y = 0; y < size.height; ++y) {
    const Taps& taps = down_.taps[y];
    sums_.assign(row_bytes, 0);
    for (std::uint32_t i = 0; i < taps.count; ++i) {
      const std::uint8_t* row = rows_.data() + (taps.begin - first_row + i) * row_bytes;
      const std::int32_t weight = down_.weights[taps.first_weight + i];
      for (std::size_t x = 0; x < row_bytes; ++x) sums_[x] += weight * row[x];
    }
    for (std::size_t x = 0; x < row_bytes; ++x) line_[x] = rounded(sums_[x]);
    spread_row(line_.data(), channels, size, y, planes);
  }
}

}  // namespace distbelief::data
