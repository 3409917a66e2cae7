#include "distbelief/data/formats/table_source.h"

#include <gtest/gtest.h>

#include <cmath>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/testing/refusal.h"

namespace distbelief::data {
namespace {

using ::testing::IsSubstring;

class Table : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& content) {
    write_text(folder_.path() / name, content);
    return (folder_.path() / name).string();
  }
  // Opens a set that trains on all rows of `train`.
  DataSet open(const std::string& train, const std::string& test, OptionMap options = {}) {
    DataConfig config;
    config.name = "csv";
    config.path = file("train.csv", train);
    options["test"] = file("test.csv", test);
    config.options = std::move(options);
    return open_data_set(config);
  }
  static std::vector<float> features(const Source& source, std::uint64_t index) {
    std::vector<float> row(static_cast<std::size_t>(source.spec().input_shape[0]), -9.0F);
    std::int64_t target = 0;
    source.read(index, row.data(), &target);
    return row;
  }
  static std::int64_t label(const Source& source, std::uint64_t index) {
    std::vector<float> row(static_cast<std::size_t>(source.spec().input_shape[0]));
    std::int64_t target = -1;
    source.read(index, row.data(), &target);
    return target;
  }
  ScratchFolder folder_;
};

TEST_F(Table, StandardisesNumbersAndUnfoldsCategories) {
  const DataSet set = open("age,town,risk\n10,Ulm,low\n30,Bonn,high\n", "age,town,risk\n40,Paris,low\n");
  EXPECT_EQ(set.train->spec().input_type, ElementType::kFloat32);
  EXPECT_EQ(set.train->spec().target_type, ElementType::kInt64);
  EXPECT_EQ(set.train->spec().classes, 2);
  EXPECT_EQ(features(*set.train, 0), (std::vector<float>{-1, 0, 1}));  // Bonn, Ulm
  EXPECT_EQ(features(*set.train, 1), (std::vector<float>{1, 1, 0}));
  EXPECT_EQ(features(*set.test, 0), (std::vector<float>{2, 0, 0})) << "a town never seen is like none";
  EXPECT_EQ(label(*set.train, 0), 1);  // high, low
  EXPECT_EQ(label(*set.test, 0), 1);
}

TEST_F(Table, SaysWhereAValueIsMissing) {
  const DataSet set = open("a,b,y\n1,x,p\n,NA,q\n3,x,p\n", "a,b,y\n?,,p\n");
  ASSERT_EQ(set.train->spec().input_shape, Shape{4});  // features: a, missing a, b = x, missing b
  EXPECT_EQ(features(*set.train, 1), (std::vector<float>{0, 1, 0, 1}));
  EXPECT_EQ(features(*set.train, 2), (std::vector<float>{1, 0, 1, 0}));
  EXPECT_EQ(features(*set.test, 0), (std::vector<float>{0, 1, 0, 1}));
}

TEST_F(Table, AMissingValueThatTrainingNeverSawIsTheMean) {
  const DataSet set = open("a,y\n1,p\n3,q\n", "a,y\n,p\n");
  EXPECT_EQ(features(*set.test, 0), std::vector<float>{0});
}

TEST_F(Table, DeliversFloatTargetsForRegression) {
  const std::string rows = "a,price\n1,10.5\n2,20.5\n";
  float target = 0;
  std::vector<float> row(1);
  const DataSet plain = open(rows, rows);
  EXPECT_EQ(plain.train->spec().target_type, ElementType::kFloat32);
  EXPECT_EQ(plain.train->spec().classes, 0);
  plain.train->read(1, row.data(), &target);
  EXPECT_EQ(target, 20.5F);
  open(rows, rows, {{"standardize_target", true}}).train->read(1, row.data(), &target);
  EXPECT_EQ(target, 1.0F);
}

TEST_F(Table, OrdersNumberedClassesByNumber) {
  const DataSet set = open("a,y\n1,10\n2,9\n3,2\n", "a,y\n1,10\n");
  EXPECT_EQ(set.train->spec().classes, 3);
  EXPECT_EQ(label(*set.train, 0), 2);
  EXPECT_EQ(label(*set.train, 2), 0);
}

TEST_F(Table, TakesRolesFromTheOptions) {
  const std::string rows = "y,id,code,n\np,7,1,1\nq,8,2,2\np,9,1,3\n";
  const DataSet set =
      open(rows, rows,
           {{"target", std::string("y")}, {"ignore", std::string("id")}, {"category", std::string("code")}});
  EXPECT_EQ(set.train->spec().input_shape, Shape{3});  // features: code 1, code 2, n
  EXPECT_EQ(features(*set.train, 1)[1], 1.0F);
  EXPECT_FLOAT_EQ(features(*set.train, 2)[2], std::sqrt(1.5F));
}

TEST_F(Table, ReadsTabsAndTablesWithoutNames) {
  const DataSet set = open("1\tp\n3\tq\n", "1\tp\n", {{"header", false}, {"target", std::string("c2")}});
  EXPECT_EQ(features(*set.train, 0), std::vector<float>{-1});
}

TEST_F(Table, ReadsDecimalCommas) {
  const std::string rows = "a;b;y\n-1,5;3;p\n+2,5;4;q\n";
  const DataSet set = open(rows, rows, {{"decimal", std::string(",")}});
  EXPECT_EQ(features(*set.train, 0), (std::vector<float>{-1, -1}));
  EXPECT_EQ(features(*set.test, 1), (std::vector<float>{1, 1}));
  const DataSet values = open("a;y\n1;0,25\n2;1e-1\n", "a;y\n1;1,5\n",
                              {{"decimal", std::string(",")}, {"task", std::string("regression")}});
  float row = 0, target = 0;
  values.test->read(0, &row, &target);
  EXPECT_EQ(target, 1.5F);
}

TEST_F(Table, NumbersWithTheOtherDecimalMarkAreNoCategories) {
  const std::string commas = "a;y\n1,5;p\n2;q\n", points = "a;y\n1.5;p\n2;q\n";
  EXPECT_PRED_FORMAT2(IsSubstring,
                      "column 'a' has numbers with a decimal comma such as '1,5'; set option "
                      "'decimal' to \",\"",
                      testing::refusal([&] { open(commas, commas); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "column 'a' has numbers with a decimal point such as '1.5'",
                      testing::refusal([&] {
                        open(points, points, {{"decimal", std::string(",")}});
                      }));
  EXPECT_PRED_FORMAT2(IsSubstring, "column 'y' has numbers with a decimal comma",
                      testing::refusal([&] { open("a;y\n1;1,5\n2;2,5\n", "a;y\n1;1,5\n"); }))
      << "of the target too";
  EXPECT_EQ(open(commas, commas, {{"category", std::string("a")}}).train->spec().input_shape, Shape{2});
  const std::string quoted = "a,y\n\"1,5\",p\n\"2,5\",q\n";
  EXPECT_EQ(open(quoted, quoted).train->spec().input_shape, Shape{2}) << "between commas one may be anything";
  EXPECT_PRED_FORMAT2(IsSubstring, "option 'decimal' must be", testing::refusal([&] {
                        open(points, points, {{"decimal", std::string("x")}});
                      }));
}

TEST_F(Table, HoldsOutTheSameRowsEachTime) {
  std::string rows = "a,y\n";
  for (int i = 0; i < 100; ++i) rows += std::to_string(i) + (i % 2 ? ",p\n" : ",q\n");
  DataConfig config;
  config.name = "csv";
  config.path = file("all.csv", rows);
  config.options = {{"held_out", 0.2}};
  const DataSet once = open_data_set(config), again = open_data_set(config);
  EXPECT_EQ(once.train->size(), 80U);
  ASSERT_EQ(once.test->size(), 20U);
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_EQ(features(*once.test, i), features(*again.test, i));
  config.options["split_seed"] = std::int64_t{2};
  const DataSet other = open_data_set(config);
  int same = 0;
  for (std::uint64_t i = 0; i < 20; ++i) same += features(*once.test, i) == features(*other.test, i);
  EXPECT_LT(same, 20);
}

TEST_F(Table, NamesTheLineOfWhatCannotBe) {
  const std::string good = "a,y\n1,p\n2,q\n";
  EXPECT_PRED_FORMAT2(IsSubstring, "train.csv', line 3: 2 fields are wanted, found 3",
                      testing::refusal([&] { open("a,y\n1,p\n2,q,r\n", good); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "test.csv', line 2: column 'a' wants a number, found 'x'",
                      testing::refusal([&] { open(good, "a,y\nx,p\n"); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "test.csv', line 2: class 'r'",
                      testing::refusal([&] { open(good, "a,y\n1,r\n"); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "train.csv', line 3: column 'y' is the target and has no value",
                      testing::refusal([&] { open("a,y\n1,p\n2,\n3,q\n", good); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "test.csv', line 1: column 1 must be 'a'",
                      testing::refusal([&] { open(good, "b,y\n1,p\n"); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "names must differ", testing::refusal([&] { open("a,a\n1,2\n", good); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "no rows", testing::refusal([&] { open("a,y\n", good); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "is empty", testing::refusal([&] { open("", good); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "line 2: column 'a' wants a number, found '1e300'", testing::refusal([&] {
                        open("a,y\n1e300,p\n2,q\n", good, {{"numeric", std::string("a")}});
                      }));
}

TEST_F(Table, ALimitTakesRowsFromAllOverASortedTable) {
  std::string rows = "x,y\n";
  for (int i = 0; i < 12; ++i) rows += std::to_string(i) + (i < 6 ? ",p\n" : ",q\n");
  DataConfig config;
  config.name = "csv";
  config.path = file("train.csv", rows);
  config.options["test"] = file("test.csv", rows);
  config.train_limit = 4;
  const DataSet set = open_data_set(config);
  std::vector<std::int64_t> found;
  for (std::uint64_t i = 0; i < set.train->size(); ++i) found.push_back(label(*set.train, i));
  EXPECT_EQ(found, (std::vector<std::int64_t>{0, 0, 1, 1}));
}

TEST_F(Table, SaysWhichOptionDoesNotFit) {
  const std::string rows = "age,name,y\n1,u,p\n2,v,q\n3,w,p\n";
  EXPECT_PRED_FORMAT2(IsSubstring, "option 'target' names a column 'agee'", testing::refusal([&] {
                        open(rows, rows, {{"target", std::string("agee")}});
                      }));
  EXPECT_PRED_FORMAT2(IsSubstring, "did you mean 'age'?", testing::refusal([&] {
                        open(rows, rows, {{"ignore", std::string("agee")}});
                      }));
  EXPECT_PRED_FORMAT2(IsSubstring, "option 'ignore' should name column 'name'", testing::refusal([&] {
                        open(rows, rows, {{"most_categories", std::int64_t{2}}});
                      }));
  EXPECT_PRED_FORMAT2(IsSubstring, "option 'task'", testing::refusal([&] {
                        open(rows, rows, {{"task", std::string("guess")}});
                      }));
  EXPECT_PRED_FORMAT2(IsSubstring, "option 'delimiter'", testing::refusal([&] {
                        open(rows, rows, {{"delimiter", std::string("ab")}});
                      }));
  EXPECT_PRED_FORMAT2(IsSubstring, "'category' names column 'age', which is in option 'numeric' too",
                      testing::refusal([&] {
                        open(rows, rows, {{"numeric", std::string("age")}, {"category", std::string("age")}});
                      }));
  EXPECT_PRED_FORMAT2(IsSubstring, "'numeric' names column 'age', which is in option 'ignore' too",
                      testing::refusal([&] {
                        open(rows, rows, {{"numeric", std::string("age")}, {"ignore", std::string("age")}});
                      }));
  EXPECT_PRED_FORMAT2(IsSubstring, "'ignore' names column 'y', which is the target", testing::refusal([&] {
                        open(rows, rows, {{"ignore", std::string("y")}});
                      }));
  EXPECT_PRED_FORMAT2(IsSubstring, "1 to", testing::refusal([&] {
                        open(rows, rows, {{"ignore", std::string("age,name")}});
                      }));
}

}  // namespace
}  // namespace distbelief::data
