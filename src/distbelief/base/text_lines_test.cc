#include "distbelief/base/text_lines.h"

#include <gtest/gtest.h>

#include <vector>

#include "distbelief/base/scratch_folder.h"

namespace distbelief {
namespace {

class TextLinesTest : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& text) {
    write_text(scratch_.path() / "x.txt", text);
    return scratch_.path() / "x.txt";
  }
  std::vector<std::string> read(const std::string& text, const TextLines::Limits& limits = {}) {
    std::vector<std::string> found;
    for (TextLines lines(file(text), limits); lines.next();) found.push_back(lines.line());
    return found;
  }

  ScratchFolder scratch_;
};

TEST_F(TextLinesTest, AreThoseOfTheFile) {
  EXPECT_EQ(read("a\n\nb c\r\n"), (std::vector<std::string>{"a", "", "b c\r"}));
  EXPECT_EQ(read("a\nb"), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(read("").empty());
  TextLines missing(scratch_.path() / "none");
  EXPECT_FALSE(missing.is_open());
  EXPECT_FALSE(missing.next());
}

TEST_F(TextLinesTest, OneWithoutANewlineIsCut) {
  TextLines lines(file("a\nb"));
  EXPECT_TRUE(lines.next());
  EXPECT_FALSE(lines.is_cut());
  EXPECT_TRUE(lines.next());
  EXPECT_TRUE(lines.is_cut());
  EXPECT_EQ(lines.number(), 2);
  EXPECT_FALSE(lines.next());
}

TEST_F(TextLinesTest, BeyondTheLimitsAreRefusedWithTheirNumber) {
  EXPECT_EQ(read("abc\nabc\n", {.line_bytes = 3, .file_bytes = 8}).size(), 2U);
  const auto refused = [&](const std::string& text) -> std::string {
    try {
      read(text, {.line_bytes = 3, .file_bytes = 8});
      return "accepted";
    } catch (const Error& error) {
      return error.message();
    }
  };
  EXPECT_NE(refused("abc\nabcd\n").find("x.txt, line 2: it has more than 3 bytes"), std::string::npos);
  EXPECT_NE(refused("a\nb\nc\nd\ne\n").find("x.txt, line 5: the file has more than 8 bytes"),
            std::string::npos);
  EXPECT_THROW(read(std::string(2 << 20, 'x')), Error);
}

}  // namespace
}  // namespace distbelief
