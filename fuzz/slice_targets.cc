#include <cstring>
#include <vector>

#include "distbelief/base/error.h"
#include "distbelief/data/slices/index.h"
#include "distbelief/data/slices/slice.h"
#include "memory_file.h"
#include "targets.h"

namespace distbelief::fuzz {

// Its checksum is put right first, or nothing behind it would ever be reached.
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

// Without the checksum around it. What is accepted comes back as the same text.
void slice_index(std::span<const std::uint8_t> input) {
  parse_or_refuse([&] {
    const data::SliceIndex index =
        data::parse_slice_set({reinterpret_cast<const char*>(input.data()), input.size()}, "index.json");
    const std::string text = data::to_text(index);
    DISTBELIEF_INVARIANT(data::to_text(data::parse_slice_index(text, "again")) == text);
  });
}

}  // namespace distbelief::fuzz
