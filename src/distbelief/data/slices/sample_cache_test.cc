#include "distbelief/data/slices/sample_cache.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/data/registry.h"

namespace distbelief::data {
namespace {

DataConfig cached_config(const ScratchFolder& scratch, std::int64_t samples) {
  DataConfig config;
  config.name = "synthetic";
  config.options = {{"samples", samples},
                    {"test_samples", std::int64_t{10}},
                    {"height", std::int64_t{6}},
                    {"width", std::int64_t{6}},
                    {"cache", (scratch.path() / "cache").string()}};
  return config;
}

std::vector<std::uint8_t> first_image(const Source& source) {
  std::vector<std::uint8_t> image(36);
  std::int64_t label = 0;
  source.read(0, image.data(), &label);
  return image;
}

std::size_t sets_in(const ScratchFolder& scratch) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path() / "cache"))
    count += std::filesystem::exists(entry.path() / "index.json") ? 1 : 0;
  return count;
}

TEST(SampleCache, IsWrittenOnceAndThenRead) {
  const ScratchFolder scratch;
  const DataConfig config = cached_config(scratch, 300);
  const DataSet first = open_data_set(config);
  EXPECT_GT(first.train->locality().slice, 0U);
  EXPECT_EQ(sets_in(scratch), 1U);
  DataConfig plain = config;
  plain.options.erase("cache");
  EXPECT_EQ(first_image(*open_data_set(config).train), first_image(*open_data_set(plain).train));
  EXPECT_EQ(sets_in(scratch), 1U);
}

TEST(SampleCache, IsAnotherOneForOtherSettings) {
  const ScratchFolder scratch;
  open_data_set(cached_config(scratch, 300));
  open_data_set(cached_config(scratch, 301));
  DataConfig limited = cached_config(scratch, 300);
  limited.train_limit = 100;
  EXPECT_EQ(open_data_set(limited).train->size(), 100U);
  EXPECT_EQ(sets_in(scratch), 3U);
}

TEST(SampleCache, KnowsChangedFiles) {
  const ScratchFolder scratch;
  DataConfig config = cached_config(scratch, 10);
  const DataSet set = open_data_set(config);
  const std::string place = (scratch.path() / "data").string();
  const CacheKey key{.folder = "", .name = "x", .places = {place}, .options = {}};
  std::filesystem::create_directory(place);
  write_text(place + "/a", "1");
  const std::string before = cache_fingerprint(set, key);
  EXPECT_EQ(before, cache_fingerprint(set, key));
  write_text(place + "/a", "22");
  EXPECT_NE(before, cache_fingerprint(set, key));
}

TEST(SampleCache, MayLieAmongTheDataItIsOf) {
  const ScratchFolder scratch;
  write_text(scratch.path() / "text.txt", "abcabcabcabc");
  DataConfig config;
  config.name = "text";
  config.path = (scratch.path() / "text.txt").string();
  config.options = {{"length", std::int64_t{2}}, {"held_out", 0.5}};
  const DataSet plain = open_data_set(config);
  const CacheKey key{.folder = scratch.path() / "data/cache",
                     .name = "x",
                     .places = {(scratch.path() / "data").string()},
                     .options = {}};
  std::filesystem::create_directories(key.folder);
  write_text(scratch.path() / "data/a", "1");
  const std::string before = cache_fingerprint(plain, key);
  write_text(key.folder / "x-1.lock", "");
  EXPECT_EQ(before, cache_fingerprint(plain, key)) << "it would be packed anew by everyone";
  config.path = (scratch.path() / "data").string();
  config.options["cache"] = key.folder.string();
  const std::string known = data_fingerprint(config, plain);
  write_text(key.folder / "slice", "22");
  EXPECT_EQ(known, data_fingerprint(config, plain)) << "the data have not changed";
  write_text(scratch.path() / "data/b", "22");
  EXPECT_NE(known, data_fingerprint(config, plain));
}

TEST(SampleCache, KnowsAChangedFileToTestOn) {
  const ScratchFolder scratch;
  write_text(scratch.path() / "train.txt", "abcabcabc");
  const std::string test = (scratch.path() / "test.txt").string();
  DataConfig config;
  config.name = "text";
  config.path = (scratch.path() / "train.txt").string();
  config.options = {
      {"length", std::int64_t{2}}, {"test", test}, {"cache", (scratch.path() / "cache").string()}};
  const auto first_token = [&config] {
    std::int64_t tokens[2], targets[2];
    open_data_set(config).test->read(0, tokens, targets);
    return tokens[0];
  };
  write_text(test, "abc");
  EXPECT_EQ(first_token(), 0);
  write_text(test, "cba\n");
  std::filesystem::resize_file(test, 3);  // the same length as before
  std::filesystem::last_write_time(test, std::filesystem::last_write_time(test) + std::chrono::seconds(1));
  EXPECT_EQ(first_token(), 2);
}

TEST(SampleCache, IsWrittenByOneOfMany) {
  const ScratchFolder scratch;
  const DataConfig config = cached_config(scratch, 5000);
  std::vector<std::jthread> openers;
  for (int i = 0; i < 4; ++i)
    openers.emplace_back([&] { EXPECT_EQ(open_data_set(config).train->size(), 5000U); });
  openers.clear();
  EXPECT_EQ(sets_in(scratch), 1U);
}

TEST(SampleCache, IsWrittenAgainWhenOnlyPartOfItIsThere) {
  const ScratchFolder scratch;
  const DataConfig config = cached_config(scratch, 300);
  open_data_set(config);
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path() / "cache"))
    if (entry.is_directory()) std::filesystem::remove(entry.path() / "index.json");
  EXPECT_EQ(sets_in(scratch), 0U);
  EXPECT_EQ(open_data_set(config).train->size(), 300U);
  EXPECT_EQ(sets_in(scratch), 1U);
}

}  // namespace
}  // namespace distbelief::data
