#include "distbelief/run/sampling_text.h"

#include <gtest/gtest.h>

#include "distbelief/data/learnt.h"

namespace distbelief::run {
namespace {

using Tokens = std::vector<std::int64_t>;
constexpr std::int64_t kVocabulary = 8;

// Predicts the last token plus one, and records its inputs.
class Counting final : public model::Block {
 public:
  explicit Counting(std::vector<Tokens>& seen) : seen_(seen) {}
  torch::Tensor forward(torch::Tensor input) override {
    const auto* tokens = input.data_ptr<std::int64_t>();
    seen_.emplace_back(tokens, tokens + input.numel());
    torch::Tensor logits = torch::zeros({input.numel(), kVocabulary});
    for (std::int64_t i = 0; i < input.numel(); ++i) logits[i][(tokens[i] + 1) % kVocabulary] = 9;
    return logits;
  }

 private:
  std::vector<Tokens>& seen_;
};

struct Continued {
  Tokens added;
  std::vector<Tokens> seen;
};

Continued continued(const Tokens& prompt, SampleOptions options) {
  Continued result;
  options.temperature = 0;
  model::Network network(
      {{.path = "",
        .make = [&](const model::BlockSite&) { return std::make_shared<Counting>(result.seen); }}},
      {0, 1}, 1);
  result.added = continue_tokens(network, prompt, options);
  return result;
}

TEST(ContinueTokens, ShowsTheNetworkTheLastTokensAndNoMoreThanItsContext) {
  const Continued found = continued({1, 2, 3}, {.context = 2, .count = 3});
  EXPECT_EQ(found.added, (Tokens{4, 5, 6}));
  EXPECT_EQ(found.seen, (std::vector<Tokens>{{2, 3}, {3, 4}, {4, 5}}));
}

TEST(ContinueTokens, ShowsAllOfWhatIsShorterThanTheContext) {
  EXPECT_EQ(continued({1}, {.context = 4, .count = 3}).seen, (std::vector<Tokens>{{1}, {1, 2}, {1, 2, 3}}));
}

TEST(ContinueTokens, StopsAfterTheLastToken) {
  EXPECT_EQ(continued({1}, {.context = 4, .count = 9, .last = 4}).added, (Tokens{2, 3, 4}));
  EXPECT_EQ(continued({6}, {.context = 4, .count = 4}).added, (Tokens{7, 0, 1, 2})) << "-1 is no token";
}

TEST(ContextOf, IsASampleUnlessStateIsCarried) {
  EXPECT_EQ(context_of({"gpt", {}}, 64), 64);
  EXPECT_EQ(context_of({"lstm", {}}, 64), 64);
  EXPECT_EQ(context_of({"lstm", {{"streams", std::int64_t{4}}}}, 64), 256);
  EXPECT_EQ(context_of({"gru", {{"streams", std::int64_t{4}}}}, 500), 500);
}

TEST(ContinuesTokens, IsWhatForetellsTheTokenAfterEachOne) {
  const auto continues = [](const char* model, const char* data) {
    Config config;
    config.model = {model, {}};
    config.data.name = data;
    return continues_tokens(prepare_job(config));
  };
  EXPECT_TRUE(continues("gpt", "synthetic_tokens"));
  EXPECT_FALSE(continues("tree_lstm", "synthetic_logic")) << "a node is no token of a text";
  EXPECT_FALSE(continues("mlp", "synthetic"));
}

TokenText text_of(data::TextLevel level, const std::string& learnt_from) {
  data::DataSet set;
  set.learnt = std::make_shared<const data::Learnt>(
      data::Learnt{.vocabulary = data::Vocabulary(level, learnt_from, "text.txt", 10)});
  return {set, 0};
}

TEST(TokenText, OfSentencesBeginsOneAndEndsWithIt) {
  const TokenText text = text_of(data::TextLevel::kSentences, "a b a\nb a\n");
  const Tokens prompt = text.encode("b a", "--prompt");
  ASSERT_EQ(prompt.size(), 3U);
  EXPECT_EQ(prompt[0], std::int64_t{data::Vocabulary::kSentenceEnd});
  EXPECT_NE(prompt[1], prompt[2]);
  EXPECT_EQ(text.last(), std::int64_t{data::Vocabulary::kSentenceEnd});
}

TEST(TokenText, OfCharactersIsTheTextAlone) {
  const TokenText text = text_of(data::TextLevel::kCharacters, "abc");
  EXPECT_EQ(text.encode("cab", "--prompt"), (Tokens{2, 0, 1}));
  EXPECT_EQ(text.decode({2, 0, 1}), "cab");
  EXPECT_EQ(text.last(), -1);
}

TEST(TokenText, WithoutAVocabularyIsNumbersOrBytes) {
  EXPECT_EQ(TokenText({}, 9).shown({1, 8}), "1 8 ");
  EXPECT_EQ(TokenText({}, 256).shown({'h', 'i'}), "hi");
}

}  // namespace
}  // namespace distbelief::run
