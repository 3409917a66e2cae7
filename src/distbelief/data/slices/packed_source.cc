#include "distbelief/data/slices/packed_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "distbelief/base/error.h"
#include "distbelief/base/prefetch.h"
#include "distbelief/data/slices/cache.h"
#include "distbelief/data/slices/depot.h"
#include "distbelief/data/slices/indexed_slice.h"
#include "distbelief/data/slices/slice.h"

namespace distbelief::data {
namespace {

constexpr std::uint64_t kLeastSlicesHeld = 4;

// An opened set: index, depot and cache. Its two sources share it. The slices of the test part are numbered
// after those of the training part.
class PackedSet {
 public:
  PackedSet(const std::string& place, const PackedOptions& options)
      : depot_(open_depot(place, options.ca_file)),
        index_(parse_slice_index(depot_->read_all(std::string(kIndexName), kMostIndexBytes),
                                 depot_->name_of(std::string(kIndexName)))),
        options_(options),
        each_(sample_bytes(index_.spec)),
        cache_({.slices = index_.train.slices.size() + index_.test.slices.size(),
                .most_bytes = options.cache_bytes,
                .threads = options.threads,
                .bring = [this](Range numbers, const auto& deliver) { bring(numbers, deliver); },
                .bytes_of = [this](std::uint64_t number) { return slice(number).raw_bytes; }}) {
    const std::uint64_t least = kLeastSlicesHeld * index_.slice_samples * each_.sum();
    if (options.cache_bytes < least)
      throw Error(
          ErrorCode::kBadInput,
          fmt::format("data.cache_mb must hold {} slices of '{}', that is {} bytes, it allows {}; raise "
                      "it, or pack with a smaller --slice-mb",
                      kLeastSlicesHeld, place, least, options.cache_bytes),
          {.key = "data.cache_mb"});
  }

  const SliceIndex& index() const { return index_; }
  const SampleBytes& each() const { return each_; }
  SliceCache& cache() { return cache_; }

  Locality locality() const {
    // The cache holds two windows, the current and the next one. The rest is for runs that cross a window's
    // edge and for slices that threads are about to deliver.
    return {.slice = index_.slice_samples,
            .run = std::max<std::uint64_t>(1, options_.transfer_bytes / (index_.slice_samples * each_.sum())),
            .window = options_.cache_bytes / 5 * 2 / each_.sum()};
  }

 private:
  const SliceEntry& slice(std::uint64_t number) const {
    const std::uint64_t train = index_.train.slices.size();
    return number < train ? index_.train.slices[number] : index_.test.slices[number - train];
  }
  const PartIndex& part(std::uint64_t number) const {
    return number < index_.train.slices.size() ? index_.train : index_.test;
  }

  // Transfers neighbouring slices of one file together, up to the option's limit.
  void bring(Range numbers, const SliceCache::Options::Deliver& deliver) const {
    for (std::uint64_t begin = numbers.begin; begin < numbers.end;) {
      std::uint64_t end = begin + 1, raw_bytes = slice(begin).raw_bytes;
      while (end < numbers.end && &part(end) == &part(begin) && slice(end).file == slice(begin).file &&
             (raw_bytes += slice(end).raw_bytes) <= options_.transfer_bytes)
        ++end;
      transfer({begin, end}, deliver);
      begin = end;
    }
  }

  void transfer(Range numbers, const SliceCache::Options::Deliver& deliver) const {
    const SliceEntry& first = slice(numbers.begin);
    const SliceEntry& last = slice(numbers.end - 1);
    const std::string& file = part(numbers.begin).files[first.file];
    // One buffer per thread: touching new pages each time costs as much as the read.
    thread_local std::vector<std::uint8_t> buffer;
    const std::size_t length = last.offset + last.bytes - first.offset;
    if (buffer.size() < length) buffer.resize(length);
    const std::span<std::uint8_t> bytes(buffer.data(), length);
    depot_->read(file, first.offset, bytes);
    for (std::uint64_t number = numbers.begin; number < numbers.end; ++number) {
      const SliceEntry& entry = slice(number);
      const std::span<const std::uint8_t> own(bytes.data() + (entry.offset - first.offset), entry.bytes);
      deliver(number, decode_indexed(index_, entry, own, {depot_->name_of(file), entry.offset}));
    }
  }

  std::unique_ptr<Depot> depot_;
  SliceIndex index_;
  PackedOptions options_;
  SampleBytes each_;
  SliceCache cache_;  // last: its threads use the other members
};

class PackedSource final : public Source {
 public:
  PackedSource(std::shared_ptr<PackedSet> set, std::uint64_t first_slice, std::uint64_t samples)
      : set_(std::move(set)),
        first_slice_(first_slice),
        samples_(samples),
        slice_samples_(set_->index().slice_samples) {
    spec_ = set_->index().spec;
  }

  std::uint64_t size() const override { return samples_; }

  void read(std::uint64_t index, void* input, void* target) const override {
    copy(index, 0, set_->each().input, input, target);
  }

  void read_columns(std::uint64_t index, std::uint64_t begin, std::uint64_t count, void* input,
                    void* target) const override {
    const std::size_t element = element_size(spec_.input_type);
    copy(index, begin * element, count * element, input, target);
  }

  Locality locality() const override { return set_->locality(); }

  void announce(Range samples) const override {
    if (samples.begin >= samples.end) return;
    set_->cache().announce({first_slice_ + samples.begin / slice_samples_,
                            first_slice_ + (samples.end - 1) / slice_samples_ + 1});
  }

 private:
  void copy(std::uint64_t index, std::uint64_t begin, std::uint64_t bytes, void* input, void* target) const {
    DISTBELIEF_INVARIANT(index < samples_);
    const SampleBytes& each = set_->each();
    const std::uint64_t number = index / slice_samples_, within = index % slice_samples_;
    const SliceCache::Slice slice = set_->cache().get(first_slice_ + number);
    const std::uint64_t in_slice = slice->size() / each.sum();
    std::memcpy(input, slice->data() + within * each.input + begin, bytes);
    std::memcpy(target, slice->data() + in_slice * each.input + within * each.target, each.target);
  }

  std::shared_ptr<PackedSet> set_;  // shared with the other part
  std::uint64_t first_slice_;
  std::uint64_t samples_;
  std::uint64_t slice_samples_;
};

}  // namespace

DataSet open_packed(const std::string& place, const PackedOptions& options) {
  const auto set = std::make_shared<PackedSet>(place, options);
  const SliceIndex& index = set->index();
  return {std::make_unique<PackedSource>(set, 0, index.train.samples),
          std::make_unique<PackedSource>(set, index.train.slices.size(), index.test.samples), index.learnt};
}

SliceIndex read_slice_index(const std::string& place, const std::string& ca_file) {
  const std::unique_ptr<Depot> depot = open_depot(place, ca_file);
  const std::string name(kIndexName);
  return parse_slice_index(depot->read_all(name, kMostIndexBytes), depot->name_of(name));
}

}  // namespace distbelief::data
