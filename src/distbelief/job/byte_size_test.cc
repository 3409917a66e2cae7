#include "distbelief/job/byte_size.h"

#include <gtest/gtest.h>

#include "distbelief/testing/refusal.h"

namespace distbelief::job {
namespace {

TEST(ByteSize, IsANumberWithOrWithoutAUnit) {
  EXPECT_EQ(parse_bytes("2000000000", "--memory"), 2'000'000'000U);
  EXPECT_EQ(parse_bytes("800M", "--memory"), std::size_t{800} << 20);
  EXPECT_EQ(parse_bytes("1.5GiB", "--memory"), std::size_t{3} << 29);
  EXPECT_EQ(parse_bytes("1.5gB", "--memory"), std::size_t{3} << 29);
  EXPECT_EQ(parse_bytes("7B", "--memory"), 7U);
}

TEST(ByteSize, OfOtherFormsIsRefused) {
  for (const char* text : {"", "G", "-1G", "0", "1X", "1GG", "nan", "inf", "1e15T", "1e300", "2 G", "1\xff"})
    EXPECT_NE(testing::refusal([&] { parse_bytes(text, "--memory"); }).find("--memory wants a size"),
              std::string::npos)
        << text;
}

}  // namespace
}  // namespace distbelief::job
