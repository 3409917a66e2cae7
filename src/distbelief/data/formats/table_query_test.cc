#include "distbelief/data/formats/table_query.h"

#include <gtest/gtest.h>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/data/formats/table_source.h"
#include "distbelief/testing/refusal.h"

namespace distbelief::data {
namespace {

using ::testing::IsSubstring;

class Query : public ::testing::Test {
 protected:
  TableSchema learn(const std::string& train, OptionMap options = {}) {
    DataConfig config;
    config.name = "csv";
    config.path = file("train.csv", train);
    options["test"] = config.path;  // nothing is held out
    config.options = std::move(options);
    return learn_table(config);
  }
  std::string file(const std::string& name, const std::string& content) {
    write_text(folder_.path() / name, content);
    return (folder_.path() / name).string();
  }
  std::vector<std::vector<float>> rows(const TableSchema& schema, const std::string& content) {
    TableQuery query(file("asked.csv", content), schema);
    std::vector<std::vector<float>> found;
    std::vector<float> row(static_cast<std::size_t>(schema.features));
    while (query.next(row.data())) found.push_back(row);
    return found;
  }
  ScratchFolder folder_;
};

TEST_F(Query, FindsColumnsByNameInAnyOrder) {
  const TableSchema schema = learn("age,town,risk\n10,Ulm,low\n30,Bonn,high\n");
  const std::vector<std::vector<float>> wanted = {{2, 0, 1}, {0, 1, 0}};
  EXPECT_EQ(rows(schema, "age,town,risk\n40,Ulm,low\n20,Bonn,high\n"), wanted);
  EXPECT_EQ(rows(schema, "note,town,age\nx,Ulm,40\ny,Bonn,20\n"), wanted) << "without the target";
}

TEST_F(Query, IsLearntWithTheOptionsOfEverySet) {
  const std::string cache = (folder_.path() / "cache").string();
  EXPECT_EQ(learn("age,town,risk\n10,Ulm,low\n30,Bonn,high\n", {{"cache", cache}}).features, 3);
}

TEST_F(Query, MissingAndUnknownValuesAreAsInTraining) {
  const TableSchema schema = learn("a,b,y\n1,x,p\n,NA,q\n3,x,p\n");
  EXPECT_EQ(rows(schema, "a,b\n?,\n3,never seen\n"),
            (std::vector<std::vector<float>>{{0, 1, 0, 1}, {1, 0, 0, 0}}));
}

TEST_F(Query, WithoutNamesTheTargetMayBeLeftOut) {
  const TableSchema schema = learn("1,p,10\n3,q,30\n", {{"header", false}, {"target", std::string("c2")}});
  EXPECT_EQ(rows(schema, "3,10\n"), (std::vector<std::vector<float>>{{1, -1}}));
  EXPECT_EQ(rows(schema, "3,anything,10\n"), (std::vector<std::vector<float>>{{1, -1}}));
  EXPECT_PRED_FORMAT2(IsSubstring, "line 1: 3 fields are wanted, or 2 without the target, found 1",
                      testing::refusal([&] { rows(schema, "3\n"); }));
}

TEST_F(Query, DamageIsNamedByLine) {
  const TableSchema schema = learn("age,town,risk\n10,Ulm,low\n30,Bonn,high\n");
  EXPECT_PRED_FORMAT2(IsSubstring, "line 1: column 'town' is wanted",
                      testing::refusal([&] { rows(schema, "age,risk\n40,low\n"); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "is there 2 times",
                      testing::refusal([&] { rows(schema, "age,age,town\n1,2,Ulm\n"); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "line 3: 2 fields are wanted, found 1",
                      testing::refusal([&] { rows(schema, "age,town\n40,Ulm\n7\n"); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "line 2: column 'age' wants a number, found 'old'",
                      testing::refusal([&] { rows(schema, "age,town\nold,Ulm\n"); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "the file is empty", testing::refusal([&] { rows(schema, ""); }));
}

}  // namespace
}  // namespace distbelief::data
