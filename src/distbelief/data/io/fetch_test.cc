#include "distbelief/data/io/fetch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "distbelief/base/hash.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/testing/refusal.h"

namespace distbelief::data {
namespace {

namespace fs = std::filesystem;

std::string tar_entry(const std::string& name, const std::string& content, char type = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(124, 11, fmt::format("{:011o}", content.size()));
  header.replace(148, 8, "        ");
  header[156] = type;
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

void write_gzip(const fs::path& path, const std::string& content) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, content.data(), unsigned(content.size()));
  gzclose(file);
}

std::string sha(const std::string& content) {
  Sha256 hash;
  hash.update(content.data(), content.size());
  return hash.hex();
}

class UnpackTar : public ::testing::Test {
 protected:
  std::string unpacked(const std::string& tar) {
    write_gzip(scratch_.path() / "a.tar.gz", tar);
    return testing::refusal([&] { unpack_tar(scratch_.path() / "a.tar.gz", wanted_, to_); });
  }
  void SetUp() override { fs::create_directory(to_); }

  ScratchFolder scratch_;
  fs::path to_ = scratch_.path() / "to";
  std::string first_ = std::string(1000, 'x');
  std::string second_ = "two";
  std::vector<RemoteFile> wanted_{{"one.bin", first_.size(), sha(first_)},
                                  {"two.bin", second_.size(), sha(second_)}};
  std::string end_ = std::string(1024, '\0');
};

TEST_F(UnpackTar, TakesOutWhatIsWantedAndNothingElse) {
  const std::string tar = tar_entry("d/", "", '5') + tar_entry("d/one.bin", first_) +
                          tar_entry("d/readme", "hello") + tar_entry("../../two.bin", second_) + end_;
  ASSERT_EQ(unpacked(tar), "accepted");
  EXPECT_EQ(read_text(to_ / "one.bin"), first_);
  EXPECT_EQ(read_text(to_ / "two.bin"), second_);
  EXPECT_EQ(std::distance(fs::directory_iterator(to_), {}), 2);
  EXPECT_FALSE(fs::exists(scratch_.path() / "two.bin"));
}

TEST_F(UnpackTar, RefusesOtherContentAndKeepsNothingOfIt) {
  std::string other = first_;
  other[500] = 'y';
  EXPECT_NE(unpacked(tar_entry("one.bin", other) + end_).find("SHA-256"), std::string::npos);
  EXPECT_NE(unpacked(tar_entry("one.bin", "short") + end_).find("1000 bytes"), std::string::npos);
  EXPECT_NE(unpacked(tar_entry("two.bin", second_) + end_).find("1 of the 2"), std::string::npos);
  const std::string twice = tar_entry("two.bin", second_) + tar_entry("x/two.bin", second_) + end_;
  EXPECT_NE(unpacked(twice).find("1 of the 2"), std::string::npos);
  EXPECT_FALSE(fs::exists(to_ / "one.bin"));
}

TEST_F(UnpackTar, RefusesADamagedOrCutArchive) {
  const std::string tar = tar_entry("one.bin", first_) + tar_entry("two.bin", second_);
  std::string damaged = tar;
  damaged[10] = 'z';
  EXPECT_NE(unpacked(damaged).find("byte 0"), std::string::npos);
  for (const std::size_t length : {100U, 512U, 700U, 1024U, 1536U})
    EXPECT_NE(unpacked(tar.substr(0, length)), "accepted") << length;
}

TEST(RemoteSets, HaveAHomeAndAHashForEveryFile) {
  for (const RemoteSet& set : remote_sets()) {
    EXPECT_FALSE(set.homes.empty());
    for (const auto& files : {set.files, set.unpacked})
      for (const RemoteFile& file : files) {
        EXPECT_EQ(file.sha256.size(), 64U) << file.name;
        EXPECT_GT(file.bytes, 0U);
      }
  }
  EXPECT_NE(testing::refusal([] { find_remote_set("cifar"); }).find("did you mean 'cifar10'"),
            std::string::npos);
}

TEST(RemoteSets, WithoutAHomeAreNotFetched) {
  const ScratchFolder scratch;
  const RemoteSet set = parse_remote_set(
      R"({"name": "x", "files": [{"name": "a.csv", "bytes": 5, "sha256": ")" + sha("hello") + R"("}]})",
      "set.json");
  EXPECT_NE(testing::refusal([&] { fetch(set, {.folder = scratch.path() / "x"}); }).find("--mirror"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(scratch.path() / "x"));
}

TEST(RemoteSets, OfOnesOwnAreReadFromJson) {
  const std::string good = fmt::format(
      R"({{"name": "x", "homes": ["http://a"], "files": [{{"name": "f", "bytes": 5, "sha256": "{}"}}]}})",
      sha("hello"));
  const RemoteSet set = parse_remote_set(good, "x.json");
  EXPECT_EQ(set.files[0].bytes, 5U);
  EXPECT_EQ(set.folder, "data/x");
  const auto refused = [](const std::string& text) {
    return testing::refusal([&] { parse_remote_set(text, "x.json"); });
  };
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{{"\"f\"", "\"../f\""},
                                                                                 {"\"f\"", "\"/etc/f\""},
                                                                                 {"\"x\"", "\"..\""},
                                                                                 {"5", "-5"},
                                                                                 {"5", "\"5\""},
                                                                                 {sha("hello"), "abc"}}) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    EXPECT_NE(refused(bad).find("x.json"), std::string::npos) << bad;
  }
  EXPECT_NE(refused("[1, 2"), "accepted");
}

TEST(RemoteSets, OfOnesOwnSayWhatIsTakenOutOfAnArchive) {
  const auto file = [](const char* name) {
    return fmt::format(R"({{"name": "{}", "bytes": 5, "sha256": "{}"}})", name, sha("hello"));
  };
  const auto set = [](const std::string& files, const std::string& unpacked) {
    return fmt::format(R"({{"name": "x", "files": [{}], "unpacked": [{}]}})", files, unpacked);
  };
  const auto refused = [](const std::string& text) {
    return testing::refusal([&] { parse_remote_set(text, "x.json"); });
  };
  const RemoteSet good = parse_remote_set(set(file("a.tar.gz"), file("b") + "," + file("c")), "x.json");
  ASSERT_EQ(good.unpacked.size(), 2U);
  EXPECT_EQ(good.unpacked[1].name, "c");
  EXPECT_NE(refused(set(file("a.tar.gz") + "," + file("d"), file("b"))).find("one file"), std::string::npos);
  EXPECT_NE(refused(set(file("a.tar.gz"), file("../b"))).find("plain name"), std::string::npos);
  EXPECT_NE(refused(set(file("a.tar.gz"), file("a.tar.gz"))).find("itself"), std::string::npos);
  EXPECT_NE(refused(set(file("a.tar.gz"), "7")).find("this is no set"), std::string::npos);
}

}  // namespace
}  // namespace distbelief::data
