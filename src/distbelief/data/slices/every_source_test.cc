#include <fmt/format.h>
#include <gtest/gtest.h>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/data/registry.h"
#include "distbelief/data/slices/pack.h"
#include "distbelief/data/slices/packed_source.h"
#include "distbelief/data/slices/slice.h"
#include "distbelief/testing/written_images.h"
#include "distbelief/testing/written_tar.h"

// Every named data set can be packed and cached, and gives the same samples from the slices.
namespace distbelief::data {
namespace {

namespace fs = std::filesystem;

void write_idx(const fs::path& folder, const std::string& part, int images) {
  std::string pixels("\0\0\x08\x03\0\0\0\0\0\0\0\x04\0\0\0\x05", 16), labels("\0\0\x08\x01\0\0\0\0", 8);
  pixels[7] = labels[7] = char(images);
  for (int i = 0; i < images; ++i) {
    for (int pixel = 0; pixel < 20; ++pixel) pixels += char(i * 20 + pixel);
    labels += char(i % 10);
  }
  write_text(folder / (part + "-images-idx3-ubyte"), pixels);
  write_text(folder / (part + "-labels-idx1-ubyte"), labels);
}

std::string cifar_records(int labels_each, int images) {
  std::string records;
  for (int i = 0; i < images; ++i)
    records += std::string(std::size_t(labels_each), char(i)) + std::string(3072, char(20 + i));
  return records;
}

std::string striped_png(std::uint32_t number) {
  return testing::to_png(
      testing::draw(6, 6, [=](auto x, auto y, auto c) { return number * 9 + x * 20 + y * 3 + c; }));
}

// Writes the files of every set that needs some, with matching options.
class EverySource : public ::testing::Test {
 protected:
  EverySource() {
    for (const char* folder : {"mnist", "cifar10", "cifar100", "s_expressions"})
      fs::create_directories(scratch_.path() / folder);
    write_idx(scratch_.path() / "mnist", "train", 12);
    write_idx(scratch_.path() / "mnist", "t10k", 3);
    for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                             "data_batch_5.bin", "test_batch.bin"})
      write_text(scratch_.path() / "cifar10" / name, cifar_records(1, 3));
    for (const char* name : {"train.bin", "test.bin"})
      write_text(scratch_.path() / "cifar100" / name, cifar_records(2, 5));
    for (const char* name : {"train.sexp", "test.sexp"})
      write_text(scratch_.path() / "s_expressions" / name,
                 "1 (and true (not false))\n0 (not true)\n1 true\n");
    testing::TarContents shard;
    for (std::uint32_t i = 0; i < 10; ++i) {
      const fs::path image =
          scratch_.path() / "image_folder" / (i % 2 ? "a" : "b") / fmt::format("{}.png", i);
      fs::create_directories(image.parent_path());
      write_text(image, striped_png(i));
      shard.push_back({fmt::format("{}.png", i), striped_png(i)});
      shard.push_back({fmt::format("{}.cls", i), std::to_string(i % 3)});
    }
    testing::write_tar(scratch_.path() / "webdataset" / "s.tar", shard);
    std::string table = "age,town,risk\n", text;
    for (int i = 0; i < 40; ++i) {
      table +=
          fmt::format("{},{},{}\n", i % 9 == 0 ? "" : std::to_string(i), i % 2 ? "Ulm" : "Bonn", i % 3 * 1.5);
      text += fmt::format("{} words in a line\n", i * i);
    }
    write_text(scratch_.path() / "csv", table);
    write_text(scratch_.path() / "text", text);
  }

  DataConfig config(const DataSetEntry& entry) const {
    DataConfig config;
    config.name = entry.name;
    config.train_limit = 9;
    config.test_limit = 4;
    const fs::path files = scratch_.path() / (entry.name == "fashion_mnist" ? "mnist" : entry.name);
    if (fs::exists(files)) config.path = files.string();
    for (const OptionSpec& option : entry.options) {
      if (option.name == "samples" || option.name == "test_samples")
        config.options[option.name] = std::int64_t{9};
      if (option.name == "resize" || option.name == "crop") config.options[option.name] = std::int64_t{4};
      if (option.name == "length") config.options[option.name] = std::int64_t{6};
    }
    if (entry.name == "csv") config.options["task"] = std::string("regression");
    if (entry.name == "csv") config.options["standardize_target"] = true;
    return config;
  }

  ScratchFolder scratch_;
};

void expect_same_spec(const SampleSpec& found, const SampleSpec& wanted) {
  EXPECT_EQ(found.input_type, wanted.input_type);
  EXPECT_EQ(found.input_shape, wanted.input_shape);
  EXPECT_EQ(found.target_type, wanted.target_type);
  EXPECT_EQ(found.target_shape, wanted.target_shape);
  EXPECT_EQ(found.classes, wanted.classes);
  EXPECT_EQ(found.class_names, wanted.class_names);
  EXPECT_EQ(found.input_tokens, wanted.input_tokens);
  EXPECT_EQ(found.target_share, wanted.target_share);
  EXPECT_EQ(found.mean, wanted.mean);
  EXPECT_EQ(found.deviation, wanted.deviation);
  EXPECT_EQ(found.target_unit, wanted.target_unit);
  EXPECT_EQ(found.target_mean, wanted.target_mean);
  EXPECT_EQ(found.table_features, wanted.table_features);
}

using Words = std::vector<std::int64_t>;  // wide enough for every element type

std::pair<Words, Words> words_of(const Source& source, std::uint64_t index) {
  const SampleBytes each = sample_bytes(source.spec());
  std::pair<Words, Words> sample{Words(each.input / sizeof(std::int64_t) + 1),
                                 Words(each.target / sizeof(std::int64_t) + 1)};
  source.read(index, sample.first.data(), sample.second.data());
  return sample;
}

void expect_same_part(const Source& found, const Source& wanted) {
  expect_same_spec(found.spec(), wanted.spec());
  ASSERT_EQ(found.size(), wanted.size());
  ASSERT_GT(found.size(), 0U);
  for (std::uint64_t i = 0; i < found.size(); ++i) ASSERT_EQ(words_of(found, i), words_of(wanted, i)) << i;
}

TEST_F(EverySource, GivesTheSameSamplesFromSlicesAndFromItsCache) {
  for (const DataSetEntry& entry : data_sets()) {
    if (entry.name == "packed") continue;
    SCOPED_TRACE(entry.name);
    DataConfig own = config(entry);
    const DataSet set = open_data_set(own);
    const fs::path folder = scratch_.path() / "packed" / entry.name;
    pack(set, {.folder = folder, .slice_bytes = 100, .threads = 2, .origin = entry.name, .progress = {}});
    const DataSet packed = open_packed(folder.string(), {});
    expect_same_part(*packed.train, *set.train);
    expect_same_part(*packed.test, *set.test);
    own.options["cache"] = (scratch_.path() / "cache").string();
    for (int i = 0; i < 2; ++i) {  // first written, then read
      const DataSet cached = open_data_set(own);
      EXPECT_GT(cached.train->locality().slice, 0U);
      expect_same_part(*cached.train, *set.train);
      expect_same_part(*cached.test, *set.test);
    }
  }
}

}  // namespace
}  // namespace distbelief::data
