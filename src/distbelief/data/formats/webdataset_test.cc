#include "distbelief/data/formats/webdataset.h"

#include <gtest/gtest.h>

#include "distbelief/data/formats/tar_index.h"
#include "distbelief/testing/image_set_fixture.h"
#include "distbelief/testing/refusal.h"
#include "distbelief/testing/written_images.h"
#include "distbelief/testing/written_tar.h"

namespace distbelief::data {
namespace {

using ::testing::IsSubstring;

std::string plain_png(std::uint32_t value) {
  return testing::to_png(testing::draw(4, 4, [=](auto, auto, auto) { return value; }));
}

class WebDataset : public testing::ImageSetFixture {
 protected:
  WebDataset() : testing::ImageSetFixture("webdataset") {}
  std::filesystem::path tar(const std::string& name, const testing::TarContents& members) {
    const std::filesystem::path path = folder_.path() / name;
    testing::write_tar(path, members);
    return path;
  }
};

TEST_F(WebDataset, ReadsSamplesOfSeveralShards) {
  tar("train/s-1.tar", {{"b/7.cls", "3"}, {"b/7.png", plain_png(70)}});
  tar("train/s-0.tar", {{"0.png", plain_png(10)},
                        {"0.cls", "1\n"},
                        {"0.txt", "other"},
                        {"1.json", R"({"label": 2, "x": [1]})"},
                        {"1.png", plain_png(20)}});
  tar("test/s.tar", {{"9.png", plain_png(90)}, {"9.cls", "4"}});
  const DataSet set = open();
  EXPECT_EQ(set.train->spec().classes, 5);
  ASSERT_EQ(set.train->size(), 3U);
  EXPECT_EQ(sample(*set.train, 0), (std::pair<int, std::int64_t>{10, 1}));
  EXPECT_EQ(sample(*set.train, 1), (std::pair<int, std::int64_t>{20, 2}));
  EXPECT_EQ(sample(*set.train, 2), (std::pair<int, std::int64_t>{70, 3}));
  EXPECT_EQ(sample(*set.test, 0), (std::pair<int, std::int64_t>{90, 4}));
}

TEST_F(WebDataset, AClassOfItsOwnComesBeforeJsonWhereverItStands) {
  tar("train/s.tar", {{"0.png", plain_png(10)},
                      {"0.json", R"({"width": 4})"},
                      {"0.cls", "cat"},
                      {"1.cls", "dog"},
                      {"1.json", R"({"label": 7})"},
                      {"1.png", plain_png(20)},
                      {"2.json", R"({"label": "cat"})"},
                      {"2.png", plain_png(30)}});
  tar("test/s.tar", {{"9.png", plain_png(90)}, {"9.cls", "dog"}});
  const DataSet set = open();
  EXPECT_EQ(set.train->spec().class_names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(sample(*set.train, 0), (std::pair<int, std::int64_t>{10, 0}));
  EXPECT_EQ(sample(*set.train, 1), (std::pair<int, std::int64_t>{20, 1}));
  EXPECT_EQ(sample(*set.train, 2), (std::pair<int, std::int64_t>{30, 0}));
}

TEST_F(WebDataset, ALimitTakesSomeOfEveryShard) {
  for (int shard = 0; shard < 3; ++shard) {
    const auto name = std::to_string(shard), label = name;
    tar("train/s-" + name + ".tar",
        {{"0.png", plain_png(10)}, {"0.cls", label}, {"1.png", plain_png(20)}, {"1.cls", label}});
    tar("test/s-" + name + ".tar", {{"0.png", plain_png(10)}, {"0.cls", label}});
  }
  DataConfig limited = config();
  limited.train_limit = 3;
  const DataSet set = open_data_set(limited);
  std::vector<std::int64_t> found;
  for (std::uint64_t i = 0; i < set.train->size(); ++i) found.push_back(sample(*set.train, i).second);
  EXPECT_EQ(found, (std::vector<std::int64_t>{0, 1, 2}));
}

TEST_F(WebDataset, RefusesClassesThatNobodyHas) {
  tar("test/s.tar", {{"0.png", plain_png(10)}, {"0.cls", "0"}});
  tar("train/s.tar", {{"0.png", plain_png(10)}, {"0.cls", "99999"}});
  EXPECT_EQ(open().train->spec().classes, 100'000);
  tar("train/s.tar", {{"0.png", plain_png(10)}, {"0.cls", "100000"}});
  EXPECT_PRED_FORMAT2(IsSubstring, "s.tar', byte 1536: '0.cls' must hold a class, a number from 0 to 99999",
                      testing::refusal([&] { open(); }));
}

TEST_F(WebDataset, ClassesMayHaveNames) {
  tar("train/s-0.tar", {{"0.png", plain_png(10)},
                        {"0.cls", "dog\n"},
                        {"1.json", R"({"label": "cat"})"},
                        {"1.png", plain_png(20)}});
  tar("train/s-1.tar", {{"2.png", plain_png(30)}, {"2.cls", "dog"}});
  tar("test/s.tar",
      {{"9.png", plain_png(90)}, {"9.cls", " big bird"}, {"8.png", plain_png(80)}, {"8.cls", "dog"}});
  const DataSet set = open();
  EXPECT_EQ(set.train->spec().class_names, (std::vector<std::string>{"big bird", "cat", "dog"}));
  EXPECT_EQ(set.test->spec().class_names, set.train->spec().class_names);
  EXPECT_EQ(set.train->spec().classes, 3);
  EXPECT_EQ(sample(*set.train, 0), (std::pair<int, std::int64_t>{10, 2}));
  EXPECT_EQ(sample(*set.train, 1), (std::pair<int, std::int64_t>{20, 1}));
  EXPECT_EQ(sample(*set.train, 2), (std::pair<int, std::int64_t>{30, 2}));
  EXPECT_EQ(sample(*set.test, 0), (std::pair<int, std::int64_t>{90, 0}));
  EXPECT_EQ(sample(*set.test, 1), (std::pair<int, std::int64_t>{80, 2}));
}

TEST_F(WebDataset, PassesOverWhatIsNotTheImageItself) {
  tar("train/s.tar", {{"a/0.PNG", plain_png(10)},
                      {"a/0.seg.png", plain_png(200)},
                      {"a/0.cls", "1"},
                      {"1.depth.jpg", "none"},
                      {"1.png", plain_png(20)},
                      {"1.old.cls", "7"},
                      {"1.cls", "0"}});
  tar("test/s.tar", {{"9.png", plain_png(90)}, {"9.cls", "1"}});
  const DataSet set = open();
  EXPECT_EQ(set.train->spec().classes, 2);
  ASSERT_EQ(set.train->size(), 2U);
  EXPECT_EQ(sample(*set.train, 0), (std::pair<int, std::int64_t>{10, 1}));
  EXPECT_EQ(sample(*set.train, 1), (std::pair<int, std::int64_t>{20, 0}));
}

TEST_F(WebDataset, RefusesTwoImagesOfOneSample) {
  const auto path = tar("s.tar", {{"b/a.png", plain_png(1)}, {"b/a.jpg", "x"}, {"b/a.cls", "1"}});
  EXPECT_PRED_FORMAT2(IsSubstring, "sample 'b/a' has two images, 'b/a.png' and 'b/a.jpg'",
                      testing::refusal([&] { index_shards({path}, "label"); }));
}

TEST_F(WebDataset, HoldsOutAShareOfOneFolder) {
  testing::TarContents members;
  for (int i = 0; i < 10; ++i) {
    members.push_back({std::to_string(i) + ".png", plain_png(100 + i)});
    members.push_back({std::to_string(i) + ".cls", std::to_string(i % 2)});
  }
  tar("all.tar", members);
  const DataSet set = open({{"held_out", 0.2}});
  EXPECT_EQ(set.train->size(), 8U);
  EXPECT_EQ(set.test->size(), 2U);
}

TEST_F(WebDataset, FindsTheBytesOfTarContentsWithLongNames) {
  const std::string longer(300, 'n');
  const auto path =
      tar("x.tar", {{"a.png", "12345"}, {longer + ".cls", std::string(1000, 'c')}, {"b", "last"}});
  const std::string all = read_text(path);
  const std::vector<TarMember> members = index_tar(path);
  ASSERT_EQ(members.size(), 3U);
  EXPECT_EQ(all.substr(members[0].offset, members[0].size), "12345");
  EXPECT_EQ(members[1].name, longer + ".cls");
  EXPECT_EQ(all.substr(members[1].offset, members[1].size), std::string(1000, 'c'));
  EXPECT_EQ(all.substr(members[2].offset, members[2].size), "last");
}

TEST_F(WebDataset, RefusesNamesThatLeaveTheirFolder) {
  for (const char* name : {"../up.png", "a/../../up.png", "/etc/up.png", ".."})
    EXPECT_PRED_FORMAT2(IsSubstring, "is absolute or has '..'", testing::refusal([&] {
                          index_tar(tar("x.tar", {{name, "x"}}));
                        }))
        << name;
  EXPECT_EQ(testing::refusal([&] { index_tar(tar("x.tar", {{"a..b/..c.png", "x"}})); }), "accepted");
}

TEST_F(WebDataset, NamesShardAndByteOfWhatCannotBe) {
  const auto why = [&](const testing::TarContents& members) {
    return testing::refusal([&] { index_shards({tar("s.tar", members)}, "label"); });
  };
  EXPECT_PRED_FORMAT2(IsSubstring, "s.tar', byte 512: sample 'a' has no .cls",
                      why({{"a.png", plain_png(1)}}));
  EXPECT_PRED_FORMAT2(IsSubstring, "sample 'a' has no .jpg", why({{"a.cls", "1"}}));
  EXPECT_PRED_FORMAT2(IsSubstring, "must hold a class", why({{"a.cls", "\n"}, {"a.png", "x"}}));
  EXPECT_PRED_FORMAT2(IsSubstring, "must hold a class", why({{"a.cls", "1.5"}, {"a.png", "x"}}));
  EXPECT_PRED_FORMAT2(IsSubstring, "must hold a class", why({{"a.cls", "c\1t"}, {"a.png", "x"}}));
  EXPECT_PRED_FORMAT2(IsSubstring, "must hold a class",
                      why({{"a.cls", std::string(300, 'c')}, {"a.png", "x"}}));
  EXPECT_PRED_FORMAT2(IsSubstring, "'b.cls' has the name 'cat', but the samples before it have numbers",
                      why({{"a.cls", "1"}, {"a.png", "x"}, {"b.cls", "cat"}, {"b.png", "x"}}));
  EXPECT_PRED_FORMAT2(IsSubstring, "must hold a class", why({{"a.cls", "-1"}, {"a.png", "x"}}));
  EXPECT_PRED_FORMAT2(IsSubstring, "under \"label\"", why({{"a.json", "[[[["}, {"a.png", "x"}}));
  EXPECT_PRED_FORMAT2(IsSubstring, "has 70000 bytes",
                      why({{"a.cls", std::string(70'000, '1')}, {"a.png", "x"}}));
  EXPECT_PRED_FORMAT2(IsSubstring, "hold no samples", why({{"readme.txt", "x"}}));
}

TEST_F(WebDataset, RefusesDamagedAndCompressedShards) {
  const auto path = tar(
      "s.tar", {{"a.png", plain_png(1)}, {"a.cls", "1"}, {"b.png", std::string(5000, 'x')}, {"b.cls", "1"}});
  const std::string whole = read_text(path);
  const auto why = [&](const std::string& content) {
    write_text(path, content);
    return testing::refusal([&] { index_tar(path); });
  };
  EXPECT_PRED_FORMAT2(IsSubstring, "the tar ends before", why(whole.substr(0, 4000)));
  EXPECT_PRED_FORMAT2(IsSubstring, "s.tar', byte ", why(std::string(10'000, 'z')));
  EXPECT_PRED_FORMAT2(IsSubstring, "at least 512 bytes", why("short"));
  EXPECT_PRED_FORMAT2(IsSubstring, "is compressed", why("\x1F\x8B" + whole));
  std::string changed = whole;
  changed[3] ^= 1;
  EXPECT_NE(why(changed), "accepted") << "the header has a checksum";
}

TEST_F(WebDataset, NamesTheByteOfADamagedImage) {
  const auto path =
      tar("s.tar", {{"a.png", plain_png(1)}, {"a.cls", "1"}, {"b.png", plain_png(2)}, {"b.cls", "0"}});
  const DataSet set = open({{"held_out", 0.5}});
  std::string content = read_text(path);
  for (std::size_t at = 0; (at = content.find("IDAT", at)) != std::string::npos; ++at)
    content[at + 6] ^= 0x55;
  write_text(path, content);
  EXPECT_PRED_FORMAT2(IsSubstring, "damaged PNG", testing::refusal([&] { sample(*set.train, 0); }));
  std::int64_t nothing = 0, label = -1;
  set.train->read_columns(0, 0, 0, &nothing, &label);
  EXPECT_GE(label, 0) << "the target alone is there all the same";
}

}  // namespace
}  // namespace distbelief::data
