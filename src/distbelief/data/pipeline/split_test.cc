#include "distbelief/data/pipeline/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "distbelief/data/formats/table.h"
#include "distbelief/data/generated/synthetic.h"
#include "distbelief/testing/refusal.h"

namespace distbelief::data {
namespace {

constexpr std::uint64_t kSamples = 1003;
constexpr std::int64_t kClasses = 7;

SplitColumns some_columns() {
  SplitColumns columns{.samples = kSamples, .classes = kClasses, .labels = {}, .values = {}};
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    columns.labels.push_back(std::int64_t((i * i + i / 5) % 7));
    columns.values.push_back(double(i * 37 % 101));
  }
  return columns;
}

std::vector<std::int64_t> class_counts(const SplitColumns& columns,
                                       const std::vector<std::uint64_t>& samples) {
  std::vector<std::int64_t> counts(std::size_t(columns.classes));
  for (const std::uint64_t sample : samples) ++counts[std::size_t(columns.labels[sample])];
  return counts;
}

// A source with a label outside its classes.
class Mislabelled final : public Source {
 public:
  Mislabelled() {
    spec_.input_shape = {1};
    spec_.classes = 2;
  }
  std::uint64_t size() const override { return 3; }
  void read(std::uint64_t index, void* input, void* target) const override {
    *static_cast<std::uint8_t*>(input) = 0;
    *static_cast<std::int64_t*>(target) = std::int64_t(index);
  }
};

TEST(Split, RefusesLabelsThatAreNoClasses) {
  const std::string message =
      testing::refusal([] { read_split_columns(Mislabelled(), parse_split("stratified")); });
  EXPECT_NE(message.find("sample 2 has class 2, outside 0 to 1"), std::string::npos) << message;
}

TEST(Split, GivesEachSampleToExactlyOneClient) {
  const SplitColumns columns = some_columns();
  for (const char* text : {"even", "stratified", "label:2", "label:7", "dirichlet:0.01", "dirichlet:0.3",
                           "dirichlet:1000", "feature:0"}) {
    for (const std::int64_t clients : {4, 5, 8, 100}) {
      const Split split = split_samples(parse_split(text), columns, clients, 3);
      ASSERT_EQ(split.size(), std::size_t(clients));
      std::vector<std::uint64_t> all;
      for (const auto& samples : split) all.insert(all.end(), samples.begin(), samples.end());
      std::sort(all.begin(), all.end());
      ASSERT_EQ(all.size(), kSamples) << text;
      for (std::uint64_t i = 0; i < kSamples; ++i) ASSERT_EQ(all[i], i) << text;
    }
  }
}

TEST(Split, IsFixedByTheSeed) {
  const SplitColumns columns = some_columns();
  for (const char* text : {"even", "stratified", "label:2", "dirichlet:0.3"}) {
    const SplitRule rule = parse_split(text);
    EXPECT_EQ(split_samples(rule, columns, 5, 3), split_samples(rule, columns, 5, 3)) << text;
    EXPECT_NE(split_samples(rule, columns, 5, 3), split_samples(rule, columns, 5, 4)) << text;
  }
}

TEST(Split, EvenAndStratifiedDifferByOneAtMost) {
  const SplitColumns columns = some_columns();
  for (const char* text : {"even", "stratified", "feature:0"}) {
    for (const auto& samples : split_samples(parse_split(text), columns, 8, 1)) {
      EXPECT_GE(samples.size(), kSamples / 8);
      EXPECT_LE(samples.size(), kSamples / 8 + 1);
    }
  }
  std::vector<std::uint64_t> whole(kSamples);
  for (std::uint64_t i = 0; i < kSamples; ++i) whole[i] = i;
  const auto all = class_counts(columns, whole);
  for (const auto& samples : split_samples(parse_split("stratified"), columns, 8, 1)) {
    const auto counts = class_counts(columns, samples);
    for (std::size_t label = 0; label < counts.size(); ++label) {
      EXPECT_GE(counts[label], all[label] / 8);
      EXPECT_LE(counts[label], all[label] / 8 + 1);
    }
  }
}

TEST(Split, ByLabelGivesSoManyClassesToEach) {
  const SplitColumns columns = some_columns();
  for (const std::int64_t each : {1, 2, 3}) {
    const SplitRule rule{.kind = SplitKind::kLabel, .classes_each = each};
    for (const auto& samples : split_samples(rule, columns, 9, 5)) {
      const auto counts = class_counts(columns, samples);
      EXPECT_EQ(std::count_if(counts.begin(), counts.end(), [](auto count) { return count > 0; }), each);
    }
  }
  EXPECT_NE(testing::refusal([&] { split_samples(parse_split("label:1"), columns, 6, 5); }).find("7 classes"),
            std::string::npos);
  EXPECT_NE(testing::refusal([&] { split_samples(parse_split("label:8"), columns, 6, 5); }), "accepted");
}

// Sums the deviations of the clients' class counts from equal counts.
double unevenness(const SplitColumns& columns, double alpha) {
  double sum = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const SplitRule rule{.kind = SplitKind::kDirichlet, .alpha = alpha};
    for (const auto& samples : split_samples(rule, columns, 8, seed))
      for (const std::int64_t count : class_counts(columns, samples))
        sum += std::abs(double(count) - double(kSamples) / double(8 * kClasses));
  }
  return sum;
}

TEST(Split, DirichletIsTheMoreUnevenTheSmallerAlpha) {
  const SplitColumns columns = some_columns();
  EXPECT_GT(unevenness(columns, 0.1), 1.3 * unevenness(columns, 1.0));
  EXPECT_GT(unevenness(columns, 1.0), 1.3 * unevenness(columns, 10.0));
}

TEST(Split, DirichletSharesHaveTheDistributionsMeanAndVariance) {
  SplitColumns columns{
      .samples = 10'000, .classes = 1, .labels = std::vector<std::int64_t>(10'000), .values = {}};
  constexpr int kDraws = 2000;
  constexpr double kAlpha = 0.5, kClients = 4;
  double sum = 0, squares = 0;
  for (std::uint64_t seed = 0; seed < kDraws; ++seed) {
    const Split split = split_samples({.kind = SplitKind::kDirichlet, .alpha = kAlpha}, columns, 4, seed);
    const double share = double(split[0].size()) / 1e4;
    sum += share;
    squares += share * share;
  }
  const double mean = sum / kDraws, variance = squares / kDraws - mean * mean;
  EXPECT_NEAR(mean, 1 / kClients, 0.02);
  EXPECT_NEAR(variance, (1 / kClients) * (1 - 1 / kClients) / (kClients * kAlpha + 1), 0.006);  // 0.0625
}

TEST(Split, ByFeatureGivesRangesThatDoNotOverlap) {
  SplitColumns columns = some_columns();
  columns.values[17] = std::numeric_limits<double>::quiet_NaN();
  const Split split = split_samples(parse_split("feature:0"), columns, 4, 0);
  double before = -1;
  for (const auto& samples : split) {
    double low = 1e9, high = -1e9;
    for (const std::uint64_t sample : samples) {
      if (sample == 17) continue;
      low = std::min(low, columns.values[sample]);
      high = std::max(high, columns.values[sample]);
    }
    EXPECT_GE(low, before);
    before = high;
  }
  EXPECT_TRUE(std::binary_search(split[3].begin(), split[3].end(), 17U));
}

TEST(Split, ReadsItsColumnsFromASource) {
  const SyntheticImages source(Part::kTrain, {.samples = 30, .height = 4, .width = 4, .classes = 3});
  const SplitColumns columns = read_split_columns(source, parse_split("feature:5"));
  std::vector<std::uint8_t> image(16);
  std::int64_t label = 0;
  source.read(7, image.data(), &label);
  EXPECT_EQ(columns.values[7], image[5]);
  EXPECT_EQ(columns.labels[7], label);
  EXPECT_NE(testing::refusal([&] { read_split_columns(source, parse_split("feature:16")); }), "accepted");
  const TableSchema table{.columns = {{.name = "town", .role = ColumnRole::kCategory, .first_feature = 0},
                                      {.name = "7", .role = ColumnRole::kNumeric, .first_feature = 3}},
                          .inputs = {0, 1},
                          .missing = {}};
  EXPECT_EQ(parse_split("feature:7", &table).feature, 3U) << "a name goes before a number";
  EXPECT_EQ(parse_split("feature:2", &table).feature, 2U);
  EXPECT_NE(testing::refusal([&] { parse_split("feature:town", &table); }).find("categories"),
            std::string::npos);
  EXPECT_NE(testing::refusal([&] { parse_split("feature:city", &table); }), "accepted");
  const SyntheticTokens tokens(Part::kTrain, {.samples = 5, .length = 4, .vocabulary = 9});
  EXPECT_NE(testing::refusal([&] { read_split_columns(tokens, parse_split("stratified")); }), "accepted");
}

TEST(Split, RefusesRulesThatAreNone) {
  for (const char* text : {"", "odd", "label", "label:", "label:0", "label:x", "dirichlet:0", "dirichlet:-1",
                           "dirichlet:1e-310", "dirichlet:nan", "dirichlet:0.3x", "feature:-1", "even:2"})
    EXPECT_NE(testing::refusal([&] { parse_split(text); }), "accepted") << text;
  EXPECT_NE(testing::refusal([&] { split_samples({}, some_columns(), 0, 1); }), "accepted");
}

}  // namespace
}  // namespace distbelief::data
