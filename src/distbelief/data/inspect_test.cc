#include "distbelief/data/inspect.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/data/registry.h"
#include "distbelief/data/slices/pack.h"
#include "distbelief/testing/refusal.h"
#include "distbelief/testing/written_images.h"
#include "distbelief/testing/written_tar.h"

namespace distbelief::data {
namespace {

using ::testing::IsSubstring;

class Inspect : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& name, const std::string& content) {
    const std::filesystem::path path = folder_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    write_text(path, content);
    return path;
  }
  // Opens the set that was found: the options must fit.
  static DataSet opened(const Finding& finding, const std::filesystem::path& path) {
    DataConfig config;
    config.name = finding.data_set;
    config.path = path.string();
    config.options = finding.options;
    return open_data_set(config);
  }
  ScratchFolder folder_;
};

TEST_F(Inspect, KnowsATableOfClasses) {
  std::string rows = "id,label,note,\"a, b\"\n";
  for (int i = 0; i < 1200; ++i)
    rows += fmt::format("{},{},free text {},{}\n", i, i % 2 ? "yes" : "no", i, i * 0.5);
  const auto path = file("people.csv", rows);
  const Finding finding = inspect(path);
  EXPECT_EQ(finding.data_set, "csv");
  EXPECT_EQ(finding.kind, FindingKind::kFeatureClasses);
  EXPECT_EQ(option<std::string>(finding.options, "target"), "label");
  EXPECT_EQ(option<std::string>(finding.options, "ignore"), "id,note");
  EXPECT_EQ(opened(finding, path).train->spec().input_shape, Shape{1});
}

TEST_F(Inspect, WantsNamesThatAJobFileCanHold) {
  const auto path = file("latin.csv",
                         "size,gr\xf6\xdf"
                         "e\n1,2.5\n2,3.5\n");
  EXPECT_PRED_FORMAT2(IsSubstring, "iconv", testing::refusal([&] { inspect(path); }));
  EXPECT_EQ(inspect(file("other.csv",
                         "gr\xf6\xdf"
                         "e,size\n1,2.5\n2,3.5\n"))
                .data_set,
            "csv")
      << "none is named";
}

TEST_F(Inspect, LeavesOutTextThatIsAnotherInEveryRow) {
  std::string rows = "name,town,remark,age,label\n";
  for (int i = 0; i < 300; ++i)
    rows += fmt::format("person {},town {},{},{},{}\n", i % 280, i % 12, i % 3 ? "" : fmt::format("r{}", i),
                        i % 70, i % 2 ? "yes" : "no");
  const auto path = file("people.csv", rows);
  const Finding finding = inspect(path);
  EXPECT_EQ(option<std::string>(finding.options, "ignore"), "name,remark");
  EXPECT_PRED_FORMAT2(IsSubstring, "another in nearly every row): name,remark", finding.notes.back());
  EXPECT_EQ(opened(finding, path).train->spec().input_shape, Shape{13});
  const auto few = file("few.csv", "town,label\nUlm,yes\nBonn,no\nKiel,yes\n");
  EXPECT_FALSE(inspect(few).options.contains("ignore")) << "three rows tell nothing";
}

TEST_F(Inspect, KnowsTrees) {
  file("trees/train.sexp", "0 (a b)\n1 (c (a b))\n0 b\n");
  file("trees/test.sexp", "1 (a b)\n");
  const Finding finding = inspect(folder_.path() / "trees");
  EXPECT_EQ(finding.data_set, "s_expressions");
  EXPECT_EQ(finding.kind, FindingKind::kTrees);
  EXPECT_EQ(finding.names, 3);
  EXPECT_EQ(finding.samples, 3U);
  EXPECT_EQ(opened(finding, folder_.path() / "trees").train->spec().input_shape, (Shape{3, 2}));
}

TEST_F(Inspect, KnowsWhatWasPacked) {
  const auto packed = [&](const std::string& name) {
    DataConfig config;
    config.name = name;
    config.options = {{"samples", std::int64_t{40}}, {"test_samples", std::int64_t{10}}};
    pack(open_data_set(config), {.folder = folder_.path() / name, .origin = name, .progress = {}});
    const Finding finding = inspect(folder_.path() / name);
    EXPECT_EQ(finding.data_set, "packed");
    EXPECT_EQ(finding.samples, 40U);
    EXPECT_EQ(opened(finding, folder_.path() / name).test->size(), 10U);
    return finding;
  };
  EXPECT_EQ(packed("synthetic").side, 28);
  EXPECT_EQ(packed("synthetic_tokens").kind, FindingKind::kTokens);
  EXPECT_EQ(packed("synthetic_table").kind, FindingKind::kFeatureClasses);
  EXPECT_PRED_FORMAT2(IsSubstring, "init knows no model",
                      testing::refusal([&] { packed("synthetic_shapes"); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "samples [8], for which init knows no model",
                      testing::refusal([&] { packed("synthetic_clicks"); }))
      << "ids with one class are no tokens to continue";
}

TEST_F(Inspect, KnowsATableOfValues) {
  const auto path = file("prices.tsv", "rooms\tprice\n1\t100.5\n2\t250\n3\t300\n");
  const Finding finding = inspect(path);
  EXPECT_EQ(finding.kind, FindingKind::kFeatureValues);
  EXPECT_EQ(opened(finding, path).train->spec().target_type, ElementType::kFloat32);
}

TEST_F(Inspect, KnowsTablesWithoutALineOfNames) {
  const auto no_header = [&](const std::string& text) {
    const auto path = file("t.csv", text);
    const Finding finding = inspect(path);
    if (!finding.options.contains("header")) return false;
    opened(finding, path);
    return true;
  };
  EXPECT_TRUE(no_header("1,2.5,0\n2,3.5,1\n3,1.5,0\n4,0.5,1\n")) << "numbers alone";
  EXPECT_TRUE(no_header("x,x,p\ny,x,q\nx,y,p\ny,y,q\n")) << "the same word twice";
  EXPECT_TRUE(no_header("5.1,3.5,setosa\n4.9,3.0,setosa\n6.3,3.3,virginica\n5.8,2.7,virginica\n"));
  EXPECT_FALSE(no_header("country,2019,2020\nA,1,2\nB,2,3\nC,5,7\nA,1,2\n"));
  EXPECT_FALSE(no_header("a,b,y\n1,2,p\n2,3,q\n3,4,p\n4,5,q\n"));
  EXPECT_FALSE(no_header("colour,y\nred,p\nblue,q\nred,p\nblue,q\n"));
  EXPECT_PRED_FORMAT2(IsSubstring, "names must differ",
                      testing::refusal([&] { no_header("a,a,y\n1,2,p\n2,3,q\n"); }));
}

TEST_F(Inspect, KnowsDecimalCommas) {
  std::string rows;
  for (int i = 0; i < 60; ++i)
    rows += fmt::format("{},{};{};{},5\n", i, i % 10, i % 2 ? "Ulm" : "Bonn", 3 * i);
  for (const char* names : {"size;town;price\n", ""}) {
    const auto path = file("sizes.csv", names + rows);
    const Finding finding = inspect(path);
    EXPECT_EQ(option<std::string>(finding.options, "decimal"), ",") << names;
    EXPECT_EQ(finding.kind, FindingKind::kFeatureValues);
    EXPECT_EQ(finding.options.contains("header"), std::string(names).empty());
    EXPECT_EQ(opened(finding, path).train->spec().input_shape, Shape{3}) << "a size and two towns";
  }
  EXPECT_FALSE(inspect(file("points.csv", "a;y\n1.5;p\n2.5;q\n")).options.contains("decimal"));
}

TEST_F(Inspect, FindsTheClassInJson) {
  const auto shards = [&](const std::string& name, const std::string& json) {
    const std::string image = testing::to_png(testing::draw(16, 16, [](auto, auto, auto) { return 80U; }));
    testing::TarContents members;
    for (int i = 0; i < 20; ++i) {
      members.push_back({fmt::format("{}.png", i), image});
      members.push_back({fmt::format("{}.json", i), fmt::format(fmt::runtime(json), i % 2 ? "cat" : "ant")});
    }
    testing::write_tar(folder_.path() / name / "s.tar", members);
    return folder_.path() / name;
  };
  const auto usual = shards("usual", R"({{"width": 16, "class": "{}"}})");
  const Finding finding = inspect(usual);
  EXPECT_EQ(option<std::string>(finding.options, "json_key"), "class");
  EXPECT_EQ(opened(finding, usual).train->spec().class_names, (std::vector<std::string>{"ant", "cat"}));
  EXPECT_EQ(
      option<std::string>(inspect(shards("only", R"({{"kind": "{}", "box": [1]}})")).options, "json_key"),
      "kind");
  EXPECT_FALSE(inspect(shards("label", R"({{"label": "{}"}})")).options.contains("json_key"));
  EXPECT_PRED_FORMAT2(
      IsSubstring, "which key of '0.json' has the class is not clear, it has kind, width",
      testing::refusal([&] { inspect(shards("unclear", R"({{"width": 16, "kind": "{}"}})")); }));
}

TEST_F(Inspect, KnowsTextAndFitsTheWindowToIt) {
  const auto path = file("story.txt", std::string(400, 'a') + "\xC3\xA4");
  const Finding finding = inspect(path);
  EXPECT_EQ(finding.data_set, "text");
  EXPECT_EQ(option<std::string>(finding.options, "level"), "characters");
  EXPECT_GT(opened(finding, path).test->size(), 0U);
  const auto odd = file("latin.txt", std::string(6000, 'a') + "\xE4\xE4");
  EXPECT_EQ(option<std::string>(inspect(odd).options, "level"), "bytes") << "the odd bytes are tested on";
  EXPECT_GT(opened(inspect(odd), odd).test->size(), 0U);
  const auto latin = file("latin.txt", "\xE4\xE4" + std::string(6000, 'a'));
  EXPECT_EQ(option<std::string>(inspect(latin).options, "level"), "bytes");
  EXPECT_EQ(opened(inspect(latin), latin).train->spec().classes, 256);
}

TEST_F(Inspect, KnowsFoldersOfImages) {
  const auto picture = [](std::uint32_t side) {
    return testing::to_png(testing::draw(side, side + 10, [](auto x, auto, auto) { return x; }));
  };
  file("set/train/a/1.png", picture(100));
  file("set/train/b/1.png", picture(90));
  file("set/test/b/1.png", picture(90));
  const Finding large = inspect(folder_.path() / "set");
  EXPECT_EQ(large.data_set, "image_folder");
  EXPECT_EQ(opened(large, folder_.path() / "set").test->spec().input_shape, (Shape{3, 64, 64}));
  file("small/a/1.png", picture(20));
  file("small/b/1.png", picture(30));
  const Finding small = inspect(folder_.path() / "small");
  EXPECT_EQ(opened(small, folder_.path() / "small").train->spec().input_shape, (Shape{3, 20, 20}));
}

TEST_F(Inspect, KnowsIdxAndCifarFolders) {
  file("fashion/train-images-idx3-ubyte", std::string("\0\0\x08\x03\0\0\0\1\0\0\0\2\0\0\0\2abcd", 20));
  EXPECT_EQ(inspect(folder_.path() / "fashion").data_set, "fashion_mnist");
  file("ten/data_batch_1.bin", "");
  file("ten/test_batch.bin", "");
  EXPECT_EQ(inspect(folder_.path() / "ten").data_set, "cifar10");
  file("hundred/train.bin", "");
  file("hundred/test.bin", "");
  EXPECT_EQ(inspect(folder_.path() / "hundred").data_set, "cifar100");
}

TEST_F(Inspect, SaysWhatItCannotUse) {
  EXPECT_PRED_FORMAT2(IsSubstring, "is no table",
                      testing::refusal([&] { inspect(file("x.bin", std::string(10, '\0'))); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "is no table", testing::refusal([&] { inspect(file("empty", "")); }));
  EXPECT_PRED_FORMAT2(IsSubstring, "too few", testing::refusal([&] { inspect(file("tiny.txt", "hello")); }));
  EXPECT_THROW(inspect(folder_.path() / "nowhere"), Error);
  const auto why = [&](const std::string& folder) {
    return testing::refusal([&] { inspect(folder_.path() / folder); });
  };
  file("tables/a.csv", "a,b\n1,2\n");
  EXPECT_PRED_FORMAT2(IsSubstring, "a table is one file: give one, such as '", why("tables"));
  file("parts/train/b.TSV.gz", "a,b\n1,2\n");
  EXPECT_PRED_FORMAT2(IsSubstring, "b.TSV.gz'", why("parts"));
  file("shards/s-0.tar.gz", "x");
  EXPECT_PRED_FORMAT2(IsSubstring, "decompress them (gunzip)", why("shards"));
  file("tgz/s-0.tgz", "x");
  EXPECT_PRED_FORMAT2(IsSubstring, "decompress them (gunzip)", why("tgz"));
}

}  // namespace
}  // namespace distbelief::data
