#include "distbelief/data/slices/index.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <functional>

#include "distbelief/data/learnt.h"
#include "distbelief/data/slices/slice.h"
#include "distbelief/testing/refusal.h"

namespace distbelief::data {
namespace {

SliceIndex small_index() {
  SliceIndex index;
  index.origin = "a test";
  index.spec.input_shape = {1, 2, 2};
  index.spec.classes = 3;
  index.spec.mean = {0.1307F};
  index.spec.deviation = {0.3081F};
  index.slice_samples = 10;
  index.train = {
      .samples = 25,
      .files = {"train-00000.slices", "train-00001.slices"},
      .slices = {{0, 10, 0, 0, 90, 120, 1}, {10, 10, 0, 90, 80, 120, 2}, {20, 5, 1, 0, 70, 60, ~0ULL}},
      .balance = {9, 8, 8}};
  index.test = {.samples = 1,
                .files = {"test-00000.slices"},
                .slices = {{0, 1, 0, 0, 50, 12, 3}},
                .balance = {1, 0, 0}};
  return index;
}

std::string parse_refusal(const std::string& text) {
  return testing::refusal([&] { parse_slice_index(text, "DIR/index.json"); });
}

std::string refusal_of(const std::function<void(SliceIndex&)>& change) {
  SliceIndex index = small_index();
  change(index);
  return parse_refusal(to_text(index));
}

TEST(SliceIndexText, ComesBackAsItWas) {
  const std::string text = to_text(small_index());
  const SliceIndex index = parse_slice_index(text, "index.json");
  EXPECT_EQ(to_text(index), text);
  EXPECT_EQ(index.spec.mean, std::vector<float>{0.1307F});
  EXPECT_EQ(index.train.slices[2].xxh3, ~0ULL);
  EXPECT_EQ(packed_bytes(index.train), 240U);
}

TEST(SliceIndexText, KeepsWhatTreesAndSentencesSayOfThemselves) {
  SliceIndex index = small_index();
  index.spec.input_type = ElementType::kInt64;
  index.spec.input_shape = index.spec.target_shape = {4};
  for (PartIndex* part : {&index.train, &index.test})
    for (SliceEntry& slice : part->slices) slice.raw_bytes = slice.samples * 64;
  index.spec.input_tokens = 70;
  index.spec.target_share = 0.3;
  const SampleSpec spec = parse_slice_index(to_text(index), "index.json").spec;
  EXPECT_EQ(spec.input_tokens, 70);
  EXPECT_EQ(spec.target_share, 0.3);
}

TEST(SliceIndexText, KeepsWhatWasLearntFromFiles) {
  SliceIndex index = small_index();
  index.spec.input_type = ElementType::kInt64;
  index.spec.input_shape = index.spec.target_shape = {4};
  index.spec.classes = 5;
  for (PartIndex* part : {&index.train, &index.test}) {
    part->balance.clear();
    for (SliceEntry& slice : part->slices) slice.raw_bytes = slice.samples * 64;
  }
  EXPECT_EQ(parse_slice_index(to_text(index), "index.json").learnt, nullptr)
      << "as an earlier version packed it";
  index.learnt = std::make_shared<const Learnt>(
      Learnt{.vocabulary = Vocabulary(std::vector<std::string>{"caf\xe9", "cat", "sat"})});
  const SliceIndex again = parse_slice_index(to_text(index), "index.json");
  EXPECT_EQ(again.learnt->vocabulary->words(), index.learnt->vocabulary->words());
  EXPECT_EQ(to_text(again), to_text(index));
  index.spec.classes = 6;
  EXPECT_NE(parse_refusal(to_text(index)).find("a vocabulary of 5 tokens is not that of the samples"),
            std::string::npos);
}

TEST(SliceIndexText, NoticesAChangedDigit) {
  std::string text = to_text(small_index());
  const std::size_t at = text.find("\"slice_samples\":10");
  ASSERT_NE(at, std::string::npos);
  text[at + 17] = '1';
  EXPECT_NE(parse_refusal(text).find("checksum"), std::string::npos);
}

TEST(SliceIndexText, IsRefusedWhenCutShortAnywhere) {
  const std::string text = to_text(small_index());
  for (std::size_t length = 0; length + 1 < text.size(); ++length)
    ASSERT_NE(parse_refusal(text.substr(0, length)), "accepted") << length;
}

TEST(SliceIndexText, RefusesSlicesThatAreNotWhereTheyMustBe) {
  const std::vector<std::function<void(SliceIndex&)>> lies = {
      [](SliceIndex& index) { index.train.slices[1].first = 11; },
      [](SliceIndex& index) { index.train.slices[1].samples = 9; },
      [](SliceIndex& index) { index.train.slices[1].offset = 89; },
      [](SliceIndex& index) { index.train.slices[1].bytes = 0; },
      [](SliceIndex& index) { index.train.slices[1].bytes = std::uint64_t{1} << 60; },
      [](SliceIndex& index) { index.train.slices[1].raw_bytes = std::uint64_t{1} << 60; },
      [](SliceIndex& index) { index.train.slices[2].file = 2; },
      [](SliceIndex& index) { index.train.slices[2].file = 0; },
      [](SliceIndex& index) { index.train.slices.pop_back(); },
      [](SliceIndex& index) { index.train.samples = ~0ULL; },
      [](SliceIndex& index) { index.train.samples = 24; },
      [](SliceIndex& index) { index.slice_samples = 0; },
      [](SliceIndex& index) { index.slice_samples = ~0ULL; },
      [](SliceIndex& index) {
        index.spec.input_shape = {1, 0, 2};
      },
      [](SliceIndex& index) {
        index.spec.input_shape = {1LL << 40, 1LL << 40};
      },
      [](SliceIndex& index) { index.spec.classes = -1; },
      [](SliceIndex& index) { index.spec.classes = kMostClasses + 1; },
      [](SliceIndex& index) { index.train.balance.pop_back(); },
      [](SliceIndex& index) { index.spec.input_tokens = kMostClasses + 1; },
      [](SliceIndex& index) { index.spec.target_share = 0.5; },  // invalid for images
  };
  for (std::size_t i = 0; i < lies.size(); ++i) EXPECT_NE(refusal_of(lies[i]), "accepted") << i;
}

TEST(SliceIndexText, RefusesSlicesThatAreLongerThanTheirSamplesAllow) {
  const std::uint64_t most = most_slice_bytes(60);
  EXPECT_EQ(refusal_of([&](SliceIndex& index) { index.train.slices[2].bytes = most; }), "accepted");
  const std::string message =
      refusal_of([&](SliceIndex& index) { index.train.slices[2].bytes = std::uint64_t{1} << 31; });
  EXPECT_NE(message.find("slice 2 at byte 0 of 'train-00001.slices' cannot have 2147483648 bytes"),
            std::string::npos)
      << message;
}

TEST(SliceIndexText, RefusesFilesOutsideItsFolder) {
  for (const char* name : {"../secret", "/etc/passwd", ".hidden", "a/b", "", "a b", "a%2fb"})
    EXPECT_NE(refusal_of([name](SliceIndex& index) { index.train.files[0] = name; }), "accepted") << name;
}

TEST(SliceIndexText, RefusesWhatIsNoIndex) {
  for (const char* text : {"", "[]", "{}", "null", "{\"format\": 3}", "\xff\xfe"})
    EXPECT_NE(parse_refusal(text).find("DIR/index.json"), std::string::npos) << text;
  EXPECT_NE(parse_refusal(std::string(100'000, '[')), "accepted");
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_NE(parse_refusal(
                fmt::format("{{\"format\":\"distbelief packed slices 1\",\"xxh3\":\"0\",\"set\":{}}}", deep)),
            "accepted");
}

}  // namespace
}  // namespace distbelief::data
