#include "distbelief/data/formats/text.h"

#include <gtest/gtest.h>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/testing/refusal.h"

namespace distbelief::data {
namespace {

using ::testing::IsSubstring;
using Tokens = std::vector<std::int64_t>;

class Text : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& content) {
    write_text(folder_.path() / name, content);
    return (folder_.path() / name).string();
  }
  DataConfig config(const std::string& text, OptionMap options) {
    DataConfig config;
    config.name = "text";
    config.path = file("train.txt", text);
    config.options = std::move(options);
    return config;
  }
  static std::pair<Tokens, Tokens> sample(const Source& source, std::uint64_t index) {
    const auto length = static_cast<std::size_t>(source.spec().input_shape[0]);
    Tokens input(length, -1), target(length, -1);
    source.read(index, input.data(), target.data());
    return {input, target};
  }
  ScratchFolder folder_;
};

TEST_F(Text, CutsBytesIntoWindowsWithTheNextByteAsTarget) {
  const DataSet set = open_data_set(config(
      "abcdefghij", {{"level", std::string("bytes")}, {"length", std::int64_t{3}}, {"held_out", 0.4}}));
  EXPECT_EQ(set.train->spec().classes, 256);
  EXPECT_EQ(set.train->spec().target_shape, Shape{3});
  ASSERT_EQ(set.train->size(), 1U);  // abcdef: abc with target d; the window def has no next token
  EXPECT_EQ(sample(*set.train, 0), (std::pair<Tokens, Tokens>{{'a', 'b', 'c'}, {'b', 'c', 'd'}}));
  EXPECT_EQ(sample(*set.test, 0), (std::pair<Tokens, Tokens>{{'g', 'h', 'i'}, {'h', 'i', 'j'}}));
}

TEST_F(Text, OverlapsWindowsByStride) {
  const DataSet set = open_data_set(config("abcdefgh", {{"level", std::string("bytes")},
                                                        {"length", std::int64_t{3}},
                                                        {"stride", std::int64_t{2}},
                                                        {"test", file("test.txt", "wxyz")}}));
  ASSERT_EQ(set.train->size(), 3U);
  EXPECT_EQ(sample(*set.train, 2).second, (Tokens{'f', 'g', 'h'}));
  EXPECT_EQ(set.test->size(), 1U);
}

TEST_F(Text, NumbersTheCharactersOfTheTrainingPart) {
  const DataSet set =
      open_data_set(config("b\xC3\xA4"
                           "a\xE2\x82\xAC"
                           "b",
                           {{"length", std::int64_t{2}}, {"test", file("test.txt", "axb")}}));
  EXPECT_EQ(set.train->spec().classes, 5);  // a, b, a umlaut, euro, any other
  EXPECT_EQ(sample(*set.train, 0), (std::pair<Tokens, Tokens>{{1, 2}, {2, 0}}));
  EXPECT_EQ(sample(*set.test, 0), (std::pair<Tokens, Tokens>{{0, 4}, {4, 1}}));
  const Vocabulary vocabulary =
      learn_vocabulary(config("b\xC3\xA4"
                              "a\xE2\x82\xAC"
                              "b",
                              {{"test", file("t", "a")}}));
  EXPECT_EQ(vocabulary.decode(2), "\xC3\xA4");
  EXPECT_EQ(vocabulary.decode(3), "\xE2\x82\xAC");
}

TEST_F(Text, IsLearntWithTheOptionsOfEverySet) {
  const std::string cache = (folder_.path() / "cache").string();
  EXPECT_EQ(learn_vocabulary(config("abcabcabcabcabc", {{"cache", cache}})).size(), 4U);
}

TEST_F(Text, EndsSentencesAndWantsNothingAfterwards) {
  const DataSet set =
      open_data_set(config("the cat sat\n\nthe dog\n", {{"level", std::string("sentences")},
                                                        {"length", std::int64_t{4}},
                                                        {"test", file("test.txt", "a cat\n")}}));
  // 0 end, 1 unknown, 2 cat, 3 dog, 4 sat, 5 the
  EXPECT_EQ(set.train->spec().classes, 6);
  ASSERT_EQ(set.train->size(), 2U);
  EXPECT_EQ(sample(*set.train, 0), (std::pair<Tokens, Tokens>{{0, 5, 2, 4}, {5, 2, 4, 0}}));
  EXPECT_EQ(sample(*set.test, 0), (std::pair<Tokens, Tokens>{{0, 1, 2, 0}, {1, 2, 0, kNoTarget}}));
  EXPECT_EQ(set.train->spec().target_share, 7.0 / 8);
  EXPECT_EQ(set.test->spec().target_share, 3.0 / 4);
}

TEST_F(Text, CutsLongSentencesAndRareWords) {
  const DataSet set = open_data_set(config("x x y y z\nx y\n", {{"level", std::string("sentences")},
                                                                {"length", std::int64_t{2}},
                                                                {"words", std::int64_t{1}},
                                                                {"test", file("test.txt", "x\n")}}));
  EXPECT_EQ(set.train->spec().classes, 3);
  EXPECT_EQ(sample(*set.train, 0).second, (Tokens{2, 2}));
  EXPECT_EQ(sample(*set.train, 1).second, (Tokens{2, 1}));
}

TEST_F(Text, HoldsOutWholeSentences) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "line " + std::to_string(i) + "\n";
  const DataSet set = open_data_set(config(text, {{"level", std::string("sentences")}, {"held_out", 0.1}}));
  EXPECT_EQ(set.train->size(), 45U);
  EXPECT_EQ(set.test->size(), 5U);
}

TEST_F(Text, NamesTheByteThatIsNotUtf8) {
  const OptionMap options{{"length", std::int64_t{1}}, {"test", file("test.txt", "abc")}};
  for (const char* bad :
       {"\xC0\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\x80", "\xE2\x82", "\xF0\x80\x80\x80"})
    EXPECT_PRED_FORMAT2(IsSubstring, "train.txt', byte 2: this is not UTF-8",
                        testing::refusal([&] { open_data_set(config("ab" + std::string(bad), options)); }))
        << bad;
}

TEST_F(Text, KeepsWideVocabulariesExactly) {
  const std::vector<std::uint32_t> tokens = {0, 255, 256, 65'535, 65'536, 1'000'000};
  for (const std::uint32_t vocabulary : {256U, 65'536U, 2'000'000U}) {
    std::vector<std::uint32_t> fitting;
    for (const std::uint32_t token : tokens)
      if (token < vocabulary) fitting.push_back(token);
    TokenArray array(vocabulary);
    for (const std::uint32_t token : fitting) array.push_back(token);
    Tokens back(fitting.size());
    array.copy(0, fitting.size(), back.data());
    EXPECT_EQ(back, Tokens(fitting.begin(), fitting.end()));
  }
}

TEST_F(Text, RefusesOptionsAndTextsThatDoNotFit) {
  const auto why = [&](const std::string& text, const OptionMap& options) {
    return testing::refusal([&] { open_data_set(config(text, options)); });
  };
  EXPECT_PRED_FORMAT2(IsSubstring, "option 'length'", why("short", {}));
  EXPECT_PRED_FORMAT2(IsSubstring, "option 'length'", why("", {}));
  EXPECT_PRED_FORMAT2(IsSubstring, "option 'length' must be 1", why("short", {{"length", std::int64_t{0}}}));
  EXPECT_PRED_FORMAT2(IsSubstring, "option 'level'", why("short", {{"level", std::string("words")}}));
  EXPECT_PRED_FORMAT2(IsSubstring, "at least 2 samples", why("one\n", {{"level", std::string("sentences")}}));
}

}  // namespace
}  // namespace distbelief::data
