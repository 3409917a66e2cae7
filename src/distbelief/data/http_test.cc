#include "distbelief/data/http.h"

#include <gtest/gtest.h>

namespace distbelief::data {
namespace {

TEST(ContentRange, HasTheFirstByteTheLastAndAll) {
  const auto range = parse_content_range("bytes 100-199/1000");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->begin, 100u);
  EXPECT_EQ(range->end, 200u);
  EXPECT_EQ(range->all, 1000u);
  EXPECT_EQ(parse_content_range("Bytes 0-0/*")->all, 0u);
}

TEST(ContentRange, OfOtherFormsIsNone) {
  for (const char* text :
       {"", "bytes", "bytes ", "bytes */1000", "bytes 5-4/10", "bytes 1-2", "bytes 1-2/", "bytes 1-2/x",
        "bytes 1-2/3 4", "bytes -1-2/3", "lines 1-2/3", "bytes 0-18446744073709551615/*",
        "bytes 99999999999999999999-2/3", "bytes 1-2/99999999999999999999"})
    EXPECT_FALSE(parse_content_range(text)) << text;
}

}  // namespace
}  // namespace distbelief::data
