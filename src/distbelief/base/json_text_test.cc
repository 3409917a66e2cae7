#include "distbelief/base/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"

namespace distbelief {
namespace {

using Json = nlohmann::json;

std::string nested(int depth) {
  return std::string(std::size_t(depth), '[') + std::string(std::size_t(depth), ']');
}

std::string json_refusal(const std::string& text) {
  try {
    parse_json(text, "notes");
    return "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.message();
  }
}

TEST(JsonText, ReadsWhatOthersRead) {
  const std::string text = R"({"a": [1, 2.5, {"b": "]}[{ \"]"}], "c": null})";
  EXPECT_EQ(json_or_discarded(text), Json::parse(text));
  EXPECT_EQ(parse_json(text, "notes"), Json::parse(text));
}

TEST(JsonText, WhatIsNoneIsDiscardedOrNamed) {
  for (const char* text : {"", "{", "[1, ]", "{\"a\": \"\xff\"}", "1e999", "[\"\\", "]]]]"}) {
    EXPECT_TRUE(json_or_discarded(text).is_discarded()) << text;
    EXPECT_NE(json_refusal(text).find("notes"), std::string::npos) << text;
  }
  EXPECT_EQ(json_refusal("[1, x]"), "notes, byte 4: no JSON");
}

TEST(JsonText, NestingHasALimitHoweverLongTheText) {
  EXPECT_EQ(json_or_discarded(nested(kMostJsonDepth)), Json::parse(nested(kMostJsonDepth)));
  EXPECT_TRUE(json_or_discarded(nested(kMostJsonDepth + 1)).is_discarded());
  EXPECT_TRUE(json_or_discarded(nested(1'000'000)).is_discarded());
  EXPECT_NE(json_refusal("  " + nested(200'000)).find("notes, byte 66: nested deeper"), std::string::npos);
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  EXPECT_TRUE(json_or_discarded(objects).is_discarded());
}

TEST(JsonText, BracketsInStringsNestNothing) {
  EXPECT_FALSE(nests_deeper(R"(["[[[[", "\\", "\"[[[["])", 1));
  EXPECT_EQ(nests_deeper(R"(["\\", [[1]]])", 2), 8u);
  std::string row = "[";
  for (int i = 0; i < 1000; ++i) row += "[],";
  EXPECT_FALSE(nests_deeper(row + "0]", 2)) << "one beside the other";
}

TEST(JsonText, FilesThatAreMissingOrTooLongHaveNone) {
  const ScratchFolder scratch;
  const auto path = scratch.path() / "x.json";
  EXPECT_TRUE(read_json(path).is_discarded());
  write_text(path, R"({"a": 1})");
  EXPECT_EQ(read_json(path), (Json{{"a", 1}}));
  std::filesystem::resize_file(path, kMostJsonFileBytes + 1);
  EXPECT_TRUE(read_json(path).is_discarded());
}

TEST(JsonText, WholeNumbersAreNotCutToFit) {
  EXPECT_EQ(whole_number(Json(-3)), -3);
  EXPECT_EQ(whole_number(Json(7u), 0, 7), 7);
  EXPECT_EQ(whole_number(Json::parse("9223372036854775807")), std::numeric_limits<std::int64_t>::max());
  for (const char* text : {"1.0", "1e300", "-1e300", "9223372036854775808", "true", "\"1\"", "[1]", "null"})
    EXPECT_THROW(whole_number(Json::parse(text)), Error) << text;
  EXPECT_THROW(whole_number(Json(-1), 0), Error);
  EXPECT_THROW(whole_number(Json(8u), 0, 7), Error);
}

}  // namespace
}  // namespace distbelief
