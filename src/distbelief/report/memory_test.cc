#include "distbelief/report/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <vector>

namespace distbelief::report {
namespace {

constexpr std::size_t kMegabyte = 1 << 20;

// Memory that is written to and that the optimiser cannot remove.
std::vector<char> touched(std::size_t bytes) {
  std::vector<char> memory(bytes);
  volatile char* const page = memory.data();
  for (std::size_t at = 0; at < bytes; at += 4096) page[at] = 1;
  return memory;
}

TEST(Memory, PeakGrowsWithWhatIsTouchedAndStays) {
  const std::uint64_t before = peak_rss_bytes();
  EXPECT_GT(before, kMegabyte / 4);
  EXPECT_LT(before, std::uint64_t{1} << 40);
  touched(before + 32 * kMegabyte);
  EXPECT_GE(peak_rss_bytes(), before + 24 * kMegabyte);
}

TEST(Memory, ProportionalShareIsPositiveAndAtMostThePeak) {
  const std::uint64_t share = pss_bytes();
  if (share == 0) GTEST_SKIP() << "this kernel has no /proc/self/smaps_rollup";
  const std::vector<char> memory = touched(64 * kMegabyte);
  const std::uint64_t grown = pss_bytes();
  EXPECT_GE(grown, share + 48 * kMegabyte);
  EXPECT_LE(grown, peak_rss_bytes() + kMegabyte);
}

// Whether memory can be mapped; does not write to it.
bool can_map(std::uint64_t bytes) {
  void* const place =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return false;
  munmap(place, bytes);
  return true;
}

TEST(MemoryBound, RefusesMoreThanThereIsAndGoesAgain) {
  const std::uint64_t available = available_bytes();
  ASSERT_GT(available, 0U);
  const std::uint64_t too_much = std::uint64_t{1} << 44;
  if (!can_map(too_much)) GTEST_SKIP() << "this machine cannot: map more memory than it has";
  try {
    const MemoryBound bound;
    EXPECT_FALSE(can_map(too_much));
    EXPECT_TRUE(can_map(available / 2));
    const MemoryBound share(4);
    EXPECT_FALSE(can_map(too_much / 4));
    throw 1;
  } catch (int) {
  }
  EXPECT_TRUE(can_map(too_much));
}

}  // namespace
}  // namespace distbelief::report
