#include "distbelief/data/formats/tree.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/data/formats/s_expressions.h"
#include "distbelief/data/generated/synthetic_speech.h"
#include "distbelief/data/registry.h"
#include "distbelief/testing/refusal.h"

namespace distbelief::data {
namespace {

TEST(SExpression, GivesChildrenBeforeTheirParents) {
  const std::vector<TreeNode> tree = parse_s_expression(" (and true (not false))");
  ASSERT_EQ(tree.size(), 4U);
  EXPECT_EQ(tree[0].name, "true");
  EXPECT_EQ(tree[0].parent, 3);
  EXPECT_EQ(tree[1].name, "false");
  EXPECT_EQ(tree[1].parent, 2);
  EXPECT_EQ(tree[2].name, "not");
  EXPECT_EQ(tree[2].parent, 3);
  EXPECT_EQ(tree[3].name, "and");
  EXPECT_EQ(tree[3].parent, -1);
}

TEST(SExpression, ThatIsWrongIsRefusedWithItsPlace) {
  for (const std::string wrong : {"", "(", "()", "(a", "(a b))", "a b", ")", "((a) b)"})
    EXPECT_THROW(parse_s_expression(wrong), Error) << wrong;
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "(a ";
  EXPECT_THROW(parse_s_expression(deep), Error);
  std::string wide = "(a";
  for (std::size_t i = 1; i < kMostTreeNodes; ++i) wide += " b";
  EXPECT_EQ(parse_s_expression(wide + ")").size(), kMostTreeNodes);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "at most 4096 nodes",
                      testing::refusal([&] { parse_s_expression(wide + " b)"); }));
  try {
    parse_s_expression("(a (b c)");
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("character 9"), std::string::npos) << error.message();
  }
}

TEST(Tree, BeginsWithEmptyNodesAndEndsWithTheRoot) {
  std::vector<std::int64_t> numbers(10);
  write_tree(parse_s_expression("(f x y)"), {{"f", 1}, {"x", 2}}, 5, numbers.data());
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{0, -1, 0, -1, 2, 4, 3, 4, 1, -1}));
  EXPECT_THROW(write_tree(parse_s_expression("(f x y)"), {}, 2, numbers.data()), Error);
}

TEST(SyntheticLogic, HasBothValuesAndFormulasThatFit) {
  const SyntheticLogic source(Part::kTrain, {.samples = 400, .nodes = 9});
  std::vector<std::int64_t> numbers(18);
  std::int64_t label = 0, positive = 0;
  for (std::uint64_t i = 0; i < source.size(); ++i) {
    source.read(i, numbers.data(), &label);
    positive += label;
    EXPECT_GT(numbers[16], 0);
    EXPECT_EQ(numbers[17], -1);
  }
  EXPECT_GT(positive, 120);
  EXPECT_LT(positive, 280);
}

TEST(SyntheticLogic, TestsOnNoFormulaThatIsTrainedOn) {
  const auto formulas = [](Part part, std::int64_t samples) {
    const SyntheticLogic source(part, {.samples = samples, .nodes = 11});
    std::set<std::vector<std::int64_t>> found;
    std::vector<std::int64_t> numbers(22), again(22);
    std::int64_t label = 0;
    for (std::uint64_t i = 0; i < source.size(); ++i) {
      source.read(i, numbers.data(), &label);
      source.read(i, again.data(), &label);
      EXPECT_EQ(numbers, again);
      found.insert(numbers);
    }
    return found;
  };
  const auto train = formulas(Part::kTrain, 4000);
  for (const auto& formula : formulas(Part::kTest, 1000)) EXPECT_FALSE(train.contains(formula));
}

TEST(SExpressions, AreReadFromFilesAndRefusedWithLine) {
  const ScratchFolder folder;
  std::ofstream(folder.path() / "train.sexp") << "0 (plus one one)\n2 (plus one two)\n";
  std::ofstream(folder.path() / "test.sexp") << "1 (minus one two)\n";
  DataConfig config;
  config.name = "s_expressions";
  config.path = folder.path().string();
  const DataSet set = open_data_set(config);
  EXPECT_EQ(set.train->size(), 2U);
  EXPECT_EQ(set.train->spec().classes, 3);
  EXPECT_EQ(set.test->spec().input_shape, (Shape{3, 2}));
  std::vector<std::int64_t> numbers(6);
  std::int64_t label = 0;
  set.test->read(0, numbers.data(), &label);
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{1, 2, 3, 2, 4, -1}));
  EXPECT_EQ(set.train->spec().input_tokens, 5);  // empty, one, plus, two, any other
  for (const char* larger : {"0 one\n3 two\n", "0 one\n\n1 (plus one one one)\n"}) {
    std::ofstream(folder.path() / "test.sexp") << larger;
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "test.sexp', line ",
                        testing::refusal([&] { open_data_set(config); }));
  }
  std::ofstream(folder.path() / "test.sexp") << "1 (minus one\n";
  try {
    open_data_set(config);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("test.sexp, line 1"), std::string::npos) << error.message();
  }
}

TEST(SExpressions, OfALineOrAFileThatNeverEndsAreRefused) {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "asked.sexp").string();
  std::ofstream(file) << "(a b)\n" << std::string(2 << 20, 'x');
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "asked.sexp, line 2",
                      testing::refusal([&] { read_asked_trees(file); }));
  std::ofstream(file) << "";
  std::filesystem::resize_file(file, std::uint64_t{1} << 32);  // takes no room on the disk
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "asked.sexp, line 1",
                      testing::refusal([&] { read_asked_trees(file); }));
}

TEST(SExpressions, AreAskedWithOrWithoutLabels) {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "asked.sexp").string();
  std::ofstream(file) << "(a b)\n\n3 (c d e)\r\n7\n-2 word\n12x\n";
  const std::vector<AskedTree> trees = read_asked_trees(file);
  ASSERT_EQ(trees.size(), 5U);
  EXPECT_EQ(trees[0].tree.size(), 2U);
  EXPECT_EQ(trees[1].tree.back().name, "c");
  EXPECT_EQ(trees[1].line, 3);
  EXPECT_EQ(trees[2].tree.back().name, "7") << "a number alone is a leaf";
  EXPECT_EQ(trees[3].tree.back().name, "word");
  EXPECT_EQ(trees[4].tree.back().name, "12x");
  std::ofstream(file) << "(a b)\n(a\n";
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "asked.sexp, line 2",
                      testing::refusal([&] { read_asked_trees(file); }));
}

TEST(SyntheticSpeech, SaysItsSymbolsInOrderWithSilenceBetweenTwins) {
  const SyntheticSpeech source(Part::kTrain, {.samples = 300, .bands = 2, .symbols = 2, .noise = 0});
  std::vector<float> frames(48 * 2);
  std::vector<std::int64_t> symbols(SyntheticSpeech::kMostSymbols);
  for (std::uint64_t i = 0; i < source.size(); ++i) {
    source.read(i, frames.data(), symbols.data());
    std::size_t runs = 0;
    for (std::size_t t = 0; t < 48; ++t) {
      const bool silent = frames[2 * t] == 0;
      const bool goes_on = t > 0 && frames[2 * t] == frames[2 * t - 2];
      if (!silent && !goes_on) ++runs;
    }
    std::size_t wanted = 0;
    while (wanted < symbols.size() && symbols[wanted] > 0) ++wanted;
    EXPECT_EQ(runs, wanted) << i;
  }
  EXPECT_THROW(SyntheticSpeech(Part::kTrain, {.frames = 10}), Error);
}

}  // namespace
}  // namespace distbelief::data
