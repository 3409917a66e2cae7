#include "distbelief/data/pipeline/batch.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "distbelief/base/error.h"
#include "distbelief/base/random.h"
#include "distbelief/base/simd.h"
#include "distbelief/base/vector.h"

namespace distbelief::data {
namespace {

constexpr std::size_t kByteValues = 256;
constexpr std::uint64_t kExpectAhead = 3;     // samples; about the latency of memory
constexpr std::int64_t kMirroredBytes = 256;  // at a time
constexpr std::int64_t kFewBytes = 64;  // for fewer bytes the table beats the setup of vector arithmetic
constexpr std::size_t kManyBytes = std::size_t{4} << 20;  // batch size that exceeds the caches of a core
constexpr std::size_t kSmallPage = 4096;
constexpr int kCollapse = 25;                  // MADV_COLLAPSE of Linux 6.1, which glibc 2.36 does not define
constexpr std::uint64_t kAnnounceAhead = 256;  // samples, for reads in order

bool is_image(const SampleSpec& spec) {
  return spec.input_type == ElementType::kUint8 && spec.input_shape.size() == 3;
}

void check(const SampleSpec& spec, const BatchMaker::Options& options, std::int64_t channels) {
  if (options.augment_pad_crop || options.augment_flip) require_augmentable(spec);
  if (options.augment_pad_crop && options.pad < 0) {
    throw Error(ErrorCode::kBadInput, fmt::format("data.pad must be 0 or more pixels, it is {}", options.pad),
                {.key = "data.pad"});
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

bool is_normalized(const SampleSpec& spec, const BatchMaker::Options& options) {
  return options.normalize && !spec.mean.empty();
}

// The float of each byte of a channel, for moved images. Computes in float and in the order of
// normalize_bytes, so that the result has the bits of torch's div(255), sub(mean), div(deviation).
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

// Hints to use huge pages. When megabytes are filled in order, every small page costs a walk of the page
// tables, and two walks in a virtual machine.
void want_huge_pages(std::byte* begin, std::size_t bytes) {
  const std::uintptr_t unaligned = reinterpret_cast<std::uintptr_t>(begin) % kSmallPage;
  const std::size_t skipped = unaligned == 0 ? 0 : kSmallPage - unaligned;
  ::madvise(begin + skipped, bytes - skipped, MADV_HUGEPAGE);
  ::madvise(begin + skipped, bytes - skipped, kCollapse);  // immediately, even for written pages
}

// Array::resize takes a Shape, which allocates: call it only when the shape changes.
void fit(Array& array, ElementType type, std::uint64_t size, const Shape& sample) {
  const Shape& now = array.shape();
  const auto count = static_cast<std::int64_t>(size);
  const bool fits = array.type() == type && now.size() == sample.size() + 1 && now.front() == count &&
                    std::equal(sample.begin(), sample.end(), now.begin() + 1);
  if (fits) return;
  Shape shape{count};
  shape.insert(shape.end(), sample.begin(), sample.end());
  const std::byte* before = array.data();
  array.resize(type, std::move(shape));
  const bool is_new = array.data() != before;
  if (is_new && array.byte_count() >= kManyBytes) want_huge_pages(array.data(), array.byte_count());
}

// Whether vector arithmetic reproduces the table of a channel bit by bit.
bool is_exact(const float* table, float mean, float deviation) {
  std::array<std::uint8_t, kByteValues> bytes;
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  std::array<float, kByteValues> values;
  normalize_bytes(values.data(), bytes.data(), mean, Divisor(deviation), kByteValues);
  return std::memcmp(values.data(), table, sizeof(values)) == 0;
}

DISTBELIEF_MULTIVERSION
void mirror(const std::uint8_t* __restrict from, std::int64_t count, std::uint8_t* __restrict to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[count - 1 - i];
}

// Converts the bytes of one channel to floats.
class ByteConversion {
 public:
  // Uses arithmetic where it is exact, because that is faster than the table.
  ByteConversion(const float* table, const BatchMaker::Conversion& how, BatchMaker::Writing writing)
      : table_(table),
        mean_(how.mean),
        deviation_(how.deviation),
        exact_(how.exact),
        writing_(writing) {}
  void operator()(const std::uint8_t* from, std::int64_t count, float* to) const {
    if (!exact_ || count < kFewBytes)
      for (std::int64_t i = 0; i < count; ++i) to[i] = table_[from[i]];
    else if (writing_ == BatchMaker::Writing::kPastCaches)
      normalize_bytes_past_caches(to, from, mean_, deviation_, static_cast<std::size_t>(count));
    else
      normalize_bytes(to, from, mean_, deviation_, static_cast<std::size_t>(count));
  }
  // Converts from the last byte to the first.
  void backwards(const std::uint8_t* from, std::int64_t count, float* to) const {
    std::array<std::uint8_t, kMirroredBytes> turned;
    for (std::int64_t done = 0; done < count; done += kMirroredBytes) {
      const std::int64_t some = std::min(count - done, kMirroredBytes);
      mirror(from + count - done - some, some, turned.data());
      (*this)(turned.data(), some, to + done);
    }
  }
  float padding() const { return table_[0]; }

 private:
  const float* table_;
  float mean_;
  Divisor deviation_;
  bool exact_;
  BatchMaker::Writing writing_;
};

}  // namespace

void require_augmentable(const SampleSpec& spec) {
  if (is_image(spec)) return;
  throw Error(
      ErrorCode::kBadInput,
      fmt::format("data.augment needs images of [channels, height, width] bytes, this data set has {} {}; "
                  "leave data.augment empty",
                  to_string(spec.input_type), to_string(spec.input_shape)),
      {.key = "data.augment"});
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
  const Writing writing =
      out.input.byte_count() < kManyBytes ? Writing::kThroughCaches : Writing::kPastCaches;
  if (placement.down == 0 && placement.right == 0 && !placement.mirrored) {
    convert(out.raw.data(), writing, image);
  } else {
    convert_placed(out.raw.data(), placement, writing, image);
  }
  if (writing == Writing::kPastCaches) publish_past_caches();
}

BatchMaker::Placement BatchMaker::draw_placement(std::uint64_t epoch, std::uint64_t sample) const {
  Placement placement;
  if (!options_.augment_pad_crop && !options_.augment_flip) return placement;
  SplitMix64 random(derive_seed({options_.seed, epoch, sample}));
  const bool mirrored = (random() >> 63) != 0;  // drawn always, so the other draws stay the same
  placement.mirrored = options_.augment_flip && mirrored;
  if (options_.augment_pad_crop) {
    const std::int64_t pad = options_.pad;
    const auto offsets = static_cast<std::uint64_t>(2 * pad + 1);
    placement.down = static_cast<std::int64_t>(random.below(offsets)) - pad;
    placement.right = static_cast<std::int64_t>(random.below(offsets)) - pad;
  }
  return placement;
}

void BatchMaker::convert(const std::uint8_t* raw, Writing writing, float* out) const {
  const std::int64_t plane = input_elements_ / channels_;
  for (std::size_t channel = 0; channel < conversions_.size(); ++channel, raw += plane, out += plane)
    ByteConversion(&table_[channel * kByteValues], conversions_[channel], writing)(raw, plane, out);
}

void BatchMaker::convert_placed(const std::uint8_t* raw, const Placement& placement, Writing writing,
                                float* out) const {
  const std::int64_t height = source_.spec().input_shape[1];
  const std::int64_t width = source_.spec().input_shape[2];
  // Output columns [begin, end), before mirroring, lie on the source; the others are padding, which is byte 0
  // before conversion.
  const std::int64_t begin = std::clamp<std::int64_t>(-placement.right, 0, width);
  const std::int64_t end = std::clamp<std::int64_t>(width - placement.right, begin, width);
  const std::int64_t first = placement.mirrored ? width - end : begin;
  for (std::size_t channel = 0; channel < conversions_.size(); ++channel, raw += height * width) {
    const ByteConversion convert(&table_[channel * kByteValues], conversions_[channel], writing);
    for (std::int64_t row = placement.down; row < placement.down + height; ++row, out += width) {
      const bool is_shown = row >= 0 && row < height && begin < end;
      std::fill(out, out + (is_shown ? first : width), convert.padding());
      if (!is_shown) continue;
      const std::uint8_t* from = raw + row * width + begin + placement.right;
      if (placement.mirrored)
        convert.backwards(from, end - begin, out + first);
      else
        convert(from, end - begin, out + first);
      std::fill(out + first + (end - begin), out + width, convert.padding());
    }
  }
}

}  // namespace distbelief::data
