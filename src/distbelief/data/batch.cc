#include "distbelief/data/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "distbelief/base/error.h"
#include "distbelief/base/random.h"
#include "distbelief/base/vector.h"

namespace distbelief::data {
namespace {

constexpr std::size_t kByteValues = 256;
constexpr std::uint64_t kExpectAhead = 3;      // samples: about the time that memory takes to answer
constexpr std::uint64_t kAnnounceAhead = 256;  // samples, when they are read in order

bool is_image(const SampleSpec& spec) {
  return spec.input_type == ElementType::kUint8 && spec.input_shape.size() == 3;
}

void check(const SampleSpec& spec, const BatchMaker::Options& options, std::int64_t channels) {
  if (options.augment_pad_crop || options.augment_flip) require_augmentable(spec);
  if (options.augment_pad_crop && options.pad < 0) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("data.pad must be 0 or more pixels, it is {}", options.pad));
  }
  const auto known = static_cast<std::int64_t>(spec.mean.size());
  const bool matches = known == 0 || known == channels;
  const bool divisible =
      std::find(spec.deviation.begin(), spec.deviation.end(), 0.0F) == spec.deviation.end();
  if (!matches || spec.mean.size() != spec.deviation.size() || !divisible) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("a data source must give a mean and a deviation other than 0 for each of its {} "
                            "channels, or none; it gives {} means and {} deviations",
                            channels, spec.mean.size(), spec.deviation.size()));
  }
}

// In float and in this order, so that the result has the bits of torch's div(255), sub(mean), div(deviation).
bool is_normalized(const SampleSpec& spec, const BatchMaker::Options& options) {
  return options.normalize && !spec.mean.empty();
}

// What each byte of a channel becomes: the same operations as normalize_bytes, for pixels that move.
std::vector<float> conversion_table(const SampleSpec& spec, std::int64_t channels,
                                    const BatchMaker::Options& options) {
  const bool normalized = is_normalized(spec, options);
  std::vector<float> table;
  table.reserve(static_cast<std::size_t>(channels) * kByteValues);
  for (std::size_t channel = 0; channel < static_cast<std::size_t>(channels); ++channel) {
    for (std::size_t value = 0; value < kByteValues; ++value) {
      const float scaled = static_cast<float>(value) / 255.0F;
      table.push_back(normalized ? (scaled - spec.mean[channel]) / spec.deviation[channel] : scaled);
    }
  }
  return table;
}

// Array::resize takes a Shape, which is an allocation: only when the shape really changes.
void fit(Array& array, ElementType type, std::uint64_t size, const Shape& sample) {
  const Shape& now = array.shape();
  const auto count = static_cast<std::int64_t>(size);
  const bool fits = array.type() == type && now.size() == sample.size() + 1 && now.front() == count &&
                    std::equal(sample.begin(), sample.end(), now.begin() + 1);
  if (fits) return;
  Shape shape{count};
  shape.insert(shape.end(), sample.begin(), sample.end());
  array.resize(type, std::move(shape));
}

// Whether vector arithmetic gives a channel's table to the bit.
bool is_exact(const float* table, float mean, float deviation) {
  std::array<std::uint8_t, kByteValues> bytes;
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  std::array<float, kByteValues> values;
  normalize_bytes(values.data(), bytes.data(), mean, deviation, kByteValues);
  return std::memcmp(values.data(), table, sizeof(values)) == 0;
}

void look_up(const std::uint8_t* from, std::int64_t count, const float* table, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = table[from[i]];
}

}  // namespace

void require_augmentable(const SampleSpec& spec) {
  if (is_image(spec)) return;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("data.augment needs images of [channels, height, width] bytes, this data set has {} {}; "
                  "leave data.augment empty",
                  to_string(spec.input_type), to_string(spec.input_shape)));
}

BatchMaker::BatchMaker(const Source& source, Options options) : source_(source), options_(options) {
  const SampleSpec& spec = source.spec();
  input_elements_ = element_count(spec.input_shape);
  target_bytes_ = static_cast<std::size_t>(element_count(spec.target_shape)) * element_size(spec.target_type);
  channels_ = is_image(spec) ? spec.input_shape.front() : 1;
  check(spec, options_, channels_);
  if (spec.input_type != ElementType::kUint8) return;
  table_ = conversion_table(spec, channels_, options_);
  const bool normalized = is_normalized(spec, options_);
  for (std::size_t channel = 0; channel < static_cast<std::size_t>(channels_); ++channel) {
    Conversion how{.mean = normalized ? spec.mean[channel] : 0.0F,
                   .deviation = normalized ? spec.deviation[channel] : 1.0F};
    how.exact = is_exact(table_.data() + channel * kByteValues, how.mean, how.deviation);
    conversions_.push_back(how);
  }
}

void BatchMaker::train_batch(const Order& order, std::uint64_t epoch, Range range, Batch& out) const {
  DISTBELIEF_INVARIANT(range.begin <= range.end && range.end <= order.size() &&
                       order.size() <= source_.size());
  prepare(range.size(), out);
  out.epoch = epoch;
  order.list(range, out.samples.data());
  for (std::uint64_t slot = 0; slot < out.size; ++slot) {
    if (slot + kExpectAhead < out.size) source_.expect(out.samples[slot + kExpectAhead]);
    read_sample(slot, draw_placement(epoch, out.samples[slot]), out);
  }
}

void BatchMaker::eval_batch(Range range, Batch& out) const {
  DISTBELIEF_INVARIANT(range.begin <= range.end && range.end <= source_.size());
  prepare(range.size(), out);
  out.epoch = out.step = out.lane = 0;
  source_.announce({range.begin, std::min(range.end + kAnnounceAhead, source_.size())});
  for (std::uint64_t slot = 0; slot < out.size; ++slot) {
    out.samples[slot] = range.begin + slot;
    read_sample(slot, Placement{}, out);
  }
}

void BatchMaker::prepare(std::uint64_t size, Batch& out) const {
  const SampleSpec& spec = source_.spec();
  const bool bytes = spec.input_type == ElementType::kUint8;
  fit(out.input, bytes ? ElementType::kFloat32 : spec.input_type, size, spec.input_shape);
  fit(out.target, spec.target_type, size, spec.target_shape);
  if (bytes) out.raw.resize(static_cast<std::size_t>(input_elements_));
  out.samples.resize(size);
  out.size = size;
}

void BatchMaker::read_sample(std::uint64_t slot, const Placement& placement, Batch& out) const {
  const auto position = static_cast<std::int64_t>(slot);
  std::byte* target = out.target.data() + slot * target_bytes_;
  if (table_.empty()) {
    const std::size_t sample_bytes =
        static_cast<std::size_t>(input_elements_) * element_size(source_.spec().input_type);
    source_.read(out.samples[slot], out.input.data() + slot * sample_bytes, target);
    return;
  }
  source_.read(out.samples[slot], out.raw.data(), target);
  float* image = out.input.as<float>() + position * input_elements_;
  if (placement.down == 0 && placement.right == 0 && !placement.mirrored) {
    convert(out.raw.data(), image);
  } else {
    convert_placed(out.raw.data(), placement, image);
  }
}

BatchMaker::Placement BatchMaker::draw_placement(std::uint64_t epoch, std::uint64_t sample) const {
  Placement placement;
  if (!options_.augment_pad_crop && !options_.augment_flip) return placement;
  SplitMix64 random(derive_seed({options_.seed, epoch, sample}));
  const bool mirrored = (random() >> 63) != 0;  // drawn always: switching one kind leaves the other as it was
  placement.mirrored = options_.augment_flip && mirrored;
  if (options_.augment_pad_crop) {
    const std::int64_t pad = options_.pad;
    const auto offsets = static_cast<std::uint64_t>(2 * pad + 1);
    placement.down = static_cast<std::int64_t>(random.below(offsets)) - pad;
    placement.right = static_cast<std::int64_t>(random.below(offsets)) - pad;
  }
  return placement;
}

void BatchMaker::convert(const std::uint8_t* raw, float* out) const {
  const std::int64_t plane = input_elements_ / channels_;
  for (std::int64_t channel = 0; channel < channels_; ++channel, raw += plane, out += plane) {
    const Conversion& how = conversions_[static_cast<std::size_t>(channel)];
    if (how.exact)
      normalize_bytes(out, raw, how.mean, how.deviation, static_cast<std::size_t>(plane));
    else
      look_up(raw, plane, table_.data() + channel * static_cast<std::int64_t>(kByteValues), out);
  }
}

void BatchMaker::convert_placed(const std::uint8_t* raw, const Placement& placement, float* out) const {
  const std::int64_t height = source_.spec().input_shape[1];
  const std::int64_t width = source_.spec().input_shape[2];
  // Output columns [begin, end) fall on the source; the others are padding, which is byte 0 before
  // conversion.
  const std::int64_t begin = std::clamp<std::int64_t>(-placement.right, 0, width);
  const std::int64_t end = std::clamp<std::int64_t>(width - placement.right, begin, width);
  for (std::int64_t line = 0; line < channels_ * height; ++line, out += width) {
    const float* table = table_.data() + line / height * static_cast<std::int64_t>(kByteValues);
    const std::int64_t from_row = line % height + placement.down;
    if (from_row < 0 || from_row >= height || begin == end) {
      std::fill(out, out + width, table[0]);
      continue;
    }
    std::fill(out, out + begin, table[0]);
    const std::int64_t from_line = line + placement.down;  // from_row of the same channel
    look_up(raw + from_line * width + begin + placement.right, end - begin, table, out + begin);
    std::fill(out + end, out + width, table[0]);
    if (placement.mirrored) std::reverse(out, out + width);
  }
}

}  // namespace distbelief::data
