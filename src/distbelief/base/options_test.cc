#include "distbelief/base/options.h"

#include <gtest/gtest.h>

#include "distbelief/base/error.h"

namespace distbelief {
namespace {

const std::vector<OptionSpec>& mlp_options() {
  static const std::vector<OptionSpec> specs = {
      {"hidden", std::vector<std::int64_t>{128}, "widths of the hidden layers"},
      {"dropout", 0.0, "share of the units dropped"},
      {"bias", true, "with bias terms"},
      {"activation", std::string("relu"), "after each hidden layer"},
      {"classes", std::int64_t{10}, "outputs"},
  };
  return specs;
}

std::string refusal(const OptionMap& given, const std::vector<OptionSpec>& specs = mlp_options()) {
  try {
    resolve_options("model 'mlp'", specs, given);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.message();
  }
  return "accepted";
}

TEST(ResolveOptions, FillsInEveryDefault) {
  const OptionMap resolved = resolve_options("model 'mlp'", mlp_options(), {});
  ASSERT_EQ(resolved.size(), 5u);
  EXPECT_EQ(option<std::vector<std::int64_t>>(resolved, "hidden"), std::vector<std::int64_t>{128});
  EXPECT_EQ(option<double>(resolved, "dropout"), 0.0);
  EXPECT_TRUE(option<bool>(resolved, "bias"));
  EXPECT_EQ(option<std::string>(resolved, "activation"), "relu");
  EXPECT_EQ(option<std::int64_t>(resolved, "classes"), 10);
}

TEST(ResolveOptions, GivenValuesWin) {
  const OptionMap resolved = resolve_options(
      "model 'mlp'", mlp_options(), {{"hidden", std::vector<std::int64_t>{64, 32}}, {"bias", false}});
  EXPECT_EQ(option<std::vector<std::int64_t>>(resolved, "hidden"), (std::vector<std::int64_t>{64, 32}));
  EXPECT_FALSE(option<bool>(resolved, "bias"));
  EXPECT_EQ(option<std::int64_t>(resolved, "classes"), 10);
}

TEST(ResolveOptions, WidensAnIntegerWhereANumberIsWanted) {
  const OptionMap resolved = resolve_options("model 'mlp'", mlp_options(), {{"dropout", std::int64_t{1}}});
  EXPECT_EQ(option<double>(resolved, "dropout"), 1.0);
}

TEST(ResolveOptions, RefusesANumberWhereAnIntegerIsWanted) {
  EXPECT_EQ(refusal({{"classes", 10.0}}),
            "model 'mlp': option 'classes' must be of type integer, such as 10; found 10.0, of type number");
}

TEST(ResolveOptions, RefusesAWrongTypeWithAnExample) {
  EXPECT_EQ(refusal({{"hidden", std::int64_t{64}}}),
            "model 'mlp': option 'hidden' must be of type list of integers, such as [128]; found 64, of type "
            "integer");
  EXPECT_EQ(refusal({{"bias", std::string("yes")}}),
            "model 'mlp': option 'bias' must be of type true or false, such as true; found \"yes\", of type "
            "string");
}

TEST(ResolveOptions, RefusesAnUnknownNameWithTheNearest) {
  EXPECT_EQ(refusal({{"hiden", std::int64_t{1}}}),
            "model 'mlp' has no option 'hiden'; did you mean 'hidden'?");
}

TEST(ResolveOptions, ListsWhatExistsWhenNothingIsNear) {
  EXPECT_EQ(refusal({{"temperature", 1.0}}),
            "model 'mlp' has no option 'temperature'; it has hidden, dropout, bias, activation, classes");
  EXPECT_EQ(refusal({{"temperature", 1.0}}, {}), "model 'mlp' has no option 'temperature'; it has none");
}

TEST(OptionValueText, IsWrittenAsInAJobFile) {
  EXPECT_EQ(to_string(OptionValue(true)), "true");
  EXPECT_EQ(to_string(OptionValue(std::int64_t{-3})), "-3");
  EXPECT_EQ(to_string(OptionValue(4.0)), "4.0");
  EXPECT_EQ(to_string(OptionValue(0.1)), "0.1");
  EXPECT_EQ(to_string(OptionValue(1e20)), "1e+20");
  EXPECT_EQ(to_string(OptionValue(-1e-8)), "-1e-08");
  EXPECT_EQ(to_string(OptionValue(std::string("a \"b\""))), "\"a \\\"b\\\"\"");
  EXPECT_EQ(to_string(OptionValue(std::vector<std::int64_t>{1, 2})), "[1, 2]");
  EXPECT_EQ(to_string(OptionValue(std::vector<std::int64_t>{})), "[]");
}

TEST(OptionValueText, NamesEveryType) {
  EXPECT_EQ(type_name(OptionValue(false)), "true or false");
  EXPECT_EQ(type_name(OptionValue(std::int64_t{0})), "integer");
  EXPECT_EQ(type_name(OptionValue(0.0)), "number");
  EXPECT_EQ(type_name(OptionValue(std::string())), "string");
  EXPECT_EQ(type_name(OptionValue(std::vector<std::int64_t>{})), "list of integers");
}

TEST(Nearest, FindsASlipOfEachKind) {
  const std::vector<std::string> optimizers = {"sgd", "adam", "adamw", "adagrad", "lars", "lamb"};
  EXPECT_EQ(nearest("sdg", optimizers), "sgd");         // neighbours swapped
  EXPECT_EQ(nearest("adagrd", optimizers), "adagrad");  // one missing
  EXPECT_EQ(nearest("adamm", optimizers), "adam");      // one too many
  EXPECT_EQ(nearest("lamp", optimizers), "lamb");       // one wrong
  EXPECT_EQ(nearest("ADAMW", optimizers), "adamw");     // letter case
}

TEST(Nearest, PrefersTheSmallestDistanceThenTheFirst) {
  EXPECT_EQ(nearest("adamw", {"adam", "adamw"}), "adamw");
  EXPECT_EQ(nearest("bat", {"cat", "hat"}), "cat");
  EXPECT_EQ(nearest("resnet", {"lenet", "resnet18", "resnet34"}), "resnet18") << "as near, and it begins so";
}

TEST(Nearest, CompletesTheBeginningOfOneCandidate) {
  EXPECT_EQ(nearest("fashion", {"mnist", "fashion_mnist"}), "fashion_mnist");
  EXPECT_EQ(nearest("synth", {"synthetic_images", "synthetic_tokens"}), "") << "which of the two?";
  EXPECT_EQ(nearest("fa", {"fashion_mnist"}), "");
}

TEST(Nearest, FindsAWordAndFirstLetters) {
  const std::vector<std::string> keys{"lr", "epochs", "batch_size", "momentum", "lr_gamma"};
  EXPECT_EQ(nearest("learning_rate", keys), "lr");
  EXPECT_EQ(nearest("num_epochs", keys), "epochs");
  EXPECT_EQ(nearest("epochs_of_momentum", keys), "") << "which of the two?";
  EXPECT_EQ(nearest("some_thing", keys), "");
}

TEST(Nearest, IsEmptyWhenNothingIsNear) {
  EXPECT_EQ(nearest("transformer", {"mlp", "cnn"}), "");
  EXPECT_EQ(nearest("x", {"y"}), "");
  EXPECT_EQ(nearest("", {"a"}), "");
  EXPECT_EQ(nearest("word", {}), "");
}

}  // namespace
}  // namespace distbelief
