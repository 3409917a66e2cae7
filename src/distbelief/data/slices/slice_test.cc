#include "distbelief/data/slices/slice.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "distbelief/testing/refusal.h"

namespace distbelief::data {
namespace {

using Raw = std::vector<std::uint8_t>;

Raw sample_raw() {
  Raw raw(12 * 9);
  std::iota(raw.begin(), raw.end(), std::uint8_t{0});
  return raw;
}

const SlicePlace kPlace{"train-00000.slices", 1000};

std::string decode_refusal(const Raw& bytes, std::uint64_t each = 9, std::uint64_t most = 1 << 20) {
  return testing::refusal([&] { decode_slice(bytes, each, most, kPlace); });
}

void correct_checksum(Raw& slice) {
  const std::uint64_t sum = slice_checksum(slice);
  std::memcpy(slice.data() + kSliceHeaderBytes - 8, &sum, sizeof sum);
}

TEST(Slice, ComesBackAsItWas) {
  const Raw raw = sample_raw();
  const Raw slice = encode_slice(raw, 12, 3);
  EXPECT_EQ(decode_slice(slice, 9, raw.size(), kPlace), raw);
  EXPECT_EQ(parse_slice_header(slice, kPlace).samples, 12U);
}

TEST(Slice, NoticesEveryChangedByteAndNamesThePlace) {
  const Raw slice = encode_slice(sample_raw(), 12, 3);
  for (std::size_t at = 0; at < slice.size(); ++at) {
    Raw damaged = slice;
    damaged[at] ^= 0x10;
    const std::string message = decode_refusal(damaged);
    EXPECT_NE(message.find("'train-00000.slices', byte 1"), std::string::npos) << at << ": " << message;
  }
}

TEST(Slice, NoticesThatItIsCutShortAnywhere) {
  const Raw slice = encode_slice(sample_raw(), 12, 3);
  for (std::size_t length = 0; length < slice.size(); ++length) {
    const std::string message = decode_refusal(Raw(slice.begin(), slice.begin() + std::ptrdiff_t(length)));
    EXPECT_NE(message, "accepted") << length;
  }
  Raw longer = slice;
  longer.push_back(0);
  EXPECT_NE(decode_refusal(longer).find("bytes follow"), std::string::npos);
}

TEST(Slice, RefusesMoreMemoryThanAllowed) {
  EXPECT_NE(decode_refusal(encode_slice(sample_raw(), 12, 3), 9, 100), "accepted");
}

TEST(Slice, RefusesLiesThatHaveARightChecksum) {
  for (const std::size_t field : {8U, 16U}) {  // samples, raw bytes
    for (const std::uint64_t lie :
         {std::uint64_t{0}, std::uint64_t{13}, ~std::uint64_t{0}, std::uint64_t{1} << 61}) {
      Raw slice = encode_slice(sample_raw(), 12, 3);
      std::memcpy(slice.data() + field, &lie, sizeof lie);
      correct_checksum(slice);
      EXPECT_NE(decode_refusal(slice), "accepted") << field << " " << lie;
    }
  }
  Raw slice = encode_slice(sample_raw(), 12, 3);
  slice[kSliceHeaderBytes + 20] ^= 1;
  Raw broken = slice;
  broken.resize(broken.size() - 3);
  const std::uint64_t payload = broken.size() - kSliceHeaderBytes;
  std::memcpy(broken.data() + 24, &payload, sizeof payload);
  correct_checksum(broken);
  EXPECT_NE(decode_refusal(broken), "accepted");
}

}  // namespace
}  // namespace distbelief::data
