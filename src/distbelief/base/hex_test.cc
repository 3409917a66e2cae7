#include "distbelief/base/hex.h"

#include <gtest/gtest.h>

#include "distbelief/base/error.h"

namespace distbelief {
namespace {

TEST(Hex, BringsEveryByteBack) {
  std::string bytes;
  for (int value = 0; value < 256; ++value) bytes += static_cast<char>(value);
  EXPECT_EQ(from_hex(to_hex(bytes)), bytes);
  EXPECT_EQ(to_hex("A\n"), "410a");
  EXPECT_EQ(from_hex(""), "");
}

TEST(Hex, RefusesWhatIsNone) {
  for (const char* text : {"4", "4g", "g4", "410", "4 "}) EXPECT_THROW(from_hex(text), Error) << text;
}

}  // namespace
}  // namespace distbelief
