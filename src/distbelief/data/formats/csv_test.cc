#include "distbelief/data/formats/csv.h"

#include <gtest/gtest.h>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/testing/refusal.h"

namespace distbelief::data {
namespace {

using ::testing::IsSubstring;
using Rows = std::vector<std::vector<std::string>>;

class Csv : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& content) {
    write_text(folder_.path() / "rows.csv", content);
    return folder_.path() / "rows.csv";
  }
  Rows rows(const std::string& content, char delimiter = ',') {
    CsvReader reader(file(content), delimiter);
    Rows all;
    while (reader.next()) {
      all.emplace_back();
      for (std::size_t i = 0; i < reader.size(); ++i) all.back().emplace_back(reader[i]);
    }
    return all;
  }
  ScratchFolder folder_;
};

TEST_F(Csv, SplitsRowsAndFields) {
  EXPECT_EQ(rows("a,b\n1,2\n"), (Rows{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(rows("a,b\r\n1,\r\n"), (Rows{{"a", "b"}, {"1", ""}}));
  EXPECT_EQ(rows("a\tb c", '\t'), (Rows{{"a", "b c"}}));
  EXPECT_EQ(rows(""), Rows{});
  EXPECT_EQ(rows("\n\r\n\na\n\n"), (Rows{{"a"}}));
}

TEST_F(Csv, TakesQuotedFields) {
  EXPECT_EQ(rows("\"a, b\",\"c \"\"d\"\"\",\"e\nf\"\n"), (Rows{{"a, b", "c \"d\"", "e\nf"}}));
  EXPECT_EQ(rows("\"\"\n"), (Rows{{""}}));
  EXPECT_EQ(rows("a,\"\"\r\n"), (Rows{{"a", ""}}));
  EXPECT_EQ(rows("6\" nails,b"), (Rows{{"6\" nails", "b"}}));
}

TEST_F(Csv, PassesOverAByteOrderMark) { EXPECT_EQ(rows("\xEF\xBB\xBFname\n"), (Rows{{"name"}})); }

TEST_F(Csv, CountsLinesThroughQuotedLineEnds) {
  CsvReader reader(file("\"a\nb\"\n\nc\n"), ',');
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.line(), 1U);
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.line(), 4U);
}

TEST_F(Csv, NamesTheLineOfWhatCannotBe) {
  EXPECT_PRED_FORMAT2(IsSubstring, "rows.csv', line 2: a quote opens",
                      testing::refusal([&] { rows("a\n\"b\nc"); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "line 1: field 2 goes on", testing::refusal([&] { rows("a,\"b\"c\n"); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "line 2: the row has a byte 0",
                      testing::refusal([&] { rows(std::string("a\n\0b\n", 5)); }));
}

TEST_F(Csv, RefusesHugeRowsBeforeTheyFillTheMemory) {
  EXPECT_PRED_FORMAT2(IsSubstring, "longer than 1048576 bytes",
                      testing::refusal([&] { rows("\"" + std::string(3 << 20, 'x')); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "more than 65536 fields",
                      testing::refusal([&] { rows(std::string(70'000, ',')); }));
}

TEST_F(Csv, GuessesTheDelimiterFromTheFirstLine) {
  EXPECT_EQ(guess_delimiter(file("a;b;c,d\n")), ';');
  EXPECT_EQ(guess_delimiter(file("a\tb\n1,2,3\n")), '\t');
  EXPECT_EQ(guess_delimiter(file("\"a;b;c\",d\n")), ',');
  EXPECT_EQ(guess_delimiter(file("alone\n")), ',');
  EXPECT_EQ(guess_delimiter(file("1,5;2,7\n")), ';') << "commas before decimals";
  EXPECT_EQ(guess_delimiter(file("1,5;x,7\n")), ',') << "one of them is none";
}

TEST_F(Csv, SplitsAListOfNames) {
  EXPECT_EQ(split_csv_line(""), std::vector<std::string>{});
  EXPECT_EQ(split_csv_line("id,\"last, first\""), (std::vector<std::string>{"id", "last, first"}));
}

}  // namespace
}  // namespace distbelief::data
