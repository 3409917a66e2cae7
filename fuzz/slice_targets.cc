#include <cstring>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/data/pipeline/split.h"
#include "distbelief/data/slices/index.h"
#include "distbelief/data/slices/packed_source.h"
#include "distbelief/data/slices/slice.h"
#include "memory_file.h"
#include "targets.h"

namespace distbelief::fuzz {
namespace {

// Computes the checksum of a slice in the file and stores it there.
std::uint64_t corrected(std::vector<std::uint8_t>& file, const data::SliceEntry& slice) {
  if (slice.offset > file.size() || slice.bytes > file.size() - slice.offset) return 0;
  const std::span<std::uint8_t> bytes = std::span(file).subspan(slice.offset, slice.bytes);
  const std::uint64_t sum = data::slice_checksum(bytes);
  std::memcpy(bytes.data() + data::kSliceHeaderBytes - sizeof sum, &sum, sizeof sum);
  return sum;
}

void read_set(const std::string& folder) {
  constexpr std::int64_t kMostSplitClasses = 4096;
  const data::DataSet set = data::open_packed(folder, {.cache_bytes = 1 << 22, .threads = 1});
  const data::SampleSpec& spec = set.train->spec();
  std::vector<std::uint64_t> input(data::sample_bytes(spec).input / 8 + 1);
  std::vector<std::uint64_t> target(data::sample_bytes(spec).target / 8 + 1);
  for (const data::Source* source : {set.test.get(), set.train.get()})
    for (std::uint64_t i = 0; i < source->size(); ++i) {
      parse_or_refuse([&] { source->read(i, input.data(), target.data()); });
    }
  if (spec.classes > kMostSplitClasses) return;
  for (const char* rule : {"stratified", "feature:0"}) {
    parse_or_refuse([&] {
      const data::SplitRule parsed = data::parse_split(rule);
      data::split_samples(parsed, data::read_split_columns(*set.train, parsed), 3, 1);
    });
  }
}

}  // namespace

// Corrects the checksum first; otherwise no code behind it would be reached.
void slice(std::span<const std::uint8_t> input) {
  constexpr std::size_t kSampleBytes = 13, kMostRaw = std::size_t{1} << 20;
  std::vector<std::uint8_t> bytes(input.begin(), input.end());
  if (bytes.size() >= data::kSliceHeaderBytes) {
    const std::uint64_t sum = data::slice_checksum(bytes);
    std::memcpy(bytes.data() + data::kSliceHeaderBytes - sizeof sum, &sum, sizeof sum);
  }
  parse_or_refuse([&] {
    const std::vector<std::uint8_t> raw = data::decode_slice(bytes, kSampleBytes, kMostRaw, {"slices", 0});
    DISTBELIEF_INVARIANT(raw.size() <= kMostRaw && raw.size() % kSampleBytes == 0);
  });
}

// Parses an index without its checksum. An accepted one must give the same text again.
void slice_index(std::span<const std::uint8_t> input) {
  parse_or_refuse([&] {
    const data::SliceIndex index =
        data::parse_slice_set({reinterpret_cast<const char*>(input.data()), input.size()}, "index.json");
    const std::string text = data::to_text(index);
    DISTBELIEF_INVARIANT(data::to_text(data::parse_slice_index(text, "again")) == text);
  });
}

// A whole set in a folder: "set" of the index, a zero byte, then the content of every file. Corrects the
// checksums.
void packed(std::span<const std::uint8_t> input) {
  constexpr std::uint64_t kMostSampleBytes = 4096, kMostSamples = 256, kMostFiles = 4;
  const Halves parts = halves(input);
  std::vector<std::uint8_t> bytes(parts.second.begin(), parts.second.end());
  parse_or_refuse([&] {
    data::SliceIndex index = data::parse_slice_set(text_of(parts.first), "index.json");
    if (data::sample_bytes(index.spec).sum() > kMostSampleBytes || index.train.samples > kMostSamples ||
        index.test.samples > kMostSamples || index.train.files.size() + index.test.files.size() > kMostFiles)
      return;
    for (data::PartIndex* part : {&index.train, &index.test})
      for (data::SliceEntry& slice : part->slices) slice.xxh3 = corrected(bytes, slice);
    const ScratchFolder folder;
    write_text(folder.path() / data::kIndexName, data::to_text(index));
    for (const data::PartIndex* part : {&index.train, &index.test})
      for (const std::string& file : part->files)
        write_text(folder.path() / file, std::string(bytes.begin(), bytes.end()));
    read_set(folder.path().string());
  });
}

}  // namespace distbelief::fuzz
