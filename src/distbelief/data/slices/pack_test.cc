#include "distbelief/data/slices/pack.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <set>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/data/formats/tree.h"
#include "distbelief/data/generated/synthetic.h"
#include "distbelief/data/pipeline/loader.h"
#include "distbelief/data/registry.h"
#include "distbelief/data/slices/packed_source.h"
#include "distbelief/data/slices/slice.h"
#include "distbelief/data/slices/verify.h"
#include "distbelief/testing/refusal.h"

namespace distbelief::data {
namespace {

namespace fs = std::filesystem;

DataSet small_set(std::int64_t train = 1003, std::int64_t test = 50) {
  SyntheticImages::Options options{.samples = train, .height = 9, .width = 7, .classes = 5};
  auto first = std::make_unique<SyntheticImages>(Part::kTrain, options);
  options.samples = test;
  return {std::move(first), std::make_unique<SyntheticImages>(Part::kTest, options)};
}

PackOptions small_slices(const fs::path& folder) {
  return {.folder = folder,
          .slice_bytes = 2000,
          .slices_per_file = 4,
          .threads = 3,
          .origin = "",
          .progress = {}};
}

const PackedOptions kSmallCache{.cache_bytes = 20'000, .transfer_bytes = 6000, .threads = 2};

struct Sample {
  std::vector<std::uint8_t> input;
  std::int64_t label = -1;
  friend bool operator==(const Sample&, const Sample&) = default;
};

Sample sample_of(const Source& source, std::uint64_t index) {
  Sample sample{std::vector<std::uint8_t>(sample_bytes(source.spec()).input), -1};
  source.read(index, sample.input.data(), &sample.label);
  return sample;
}

void expect_same(const Source& a, const Source& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::uint64_t i = 0; i < a.size(); ++i) ASSERT_EQ(sample_of(a, i), sample_of(b, i)) << i;
}

void flip_byte(const fs::path& path, std::uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(std::streamoff(at));
  const char changed = char(file.get() ^ 1);
  file.seekp(std::streamoff(at));
  file.put(changed);
}

TEST(Pack, GivesBackEverySampleOfBothParts) {
  const ScratchFolder scratch;
  const DataSet set = small_set();
  const SliceIndex index = pack(set, small_slices(scratch.path() / "set"));
  EXPECT_EQ(index.train.files.size(), 9U);  // 36 slices of 28 samples, four per file
  const DataSet packed = open_packed((scratch.path() / "set").string(), kSmallCache);
  expect_same(*set.train, *packed.train);
  expect_same(*set.test, *packed.test);
  EXPECT_EQ(packed.train->spec().input_shape, set.train->spec().input_shape);
  EXPECT_EQ(index.train.balance, class_balance(*set.train));
}

TEST(Pack, HasTheSameBytesWhateverTheThreads) {
  const ScratchFolder scratch;
  PackOptions options = small_slices(scratch.path() / "three");
  pack(small_set(), options);
  options.folder = scratch.path() / "one";
  options.threads = 1;
  pack(small_set(), options);
  for (const auto& entry : fs::directory_iterator(options.folder))
    EXPECT_EQ(read_text(entry.path()), read_text(scratch.path() / "three" / entry.path().filename()));
}

TEST(Pack, LeavesNoSetWhenItIsInterruptedAndCleansUpAtTheNextTry) {
  const ScratchFolder scratch;
  PackOptions options = small_slices(scratch.path());
  options.progress = [](std::uint64_t done, std::uint64_t all) {
    if (done > all / 2) throw std::runtime_error("interrupted");
  };
  EXPECT_THROW(pack(small_set(), options), std::runtime_error);
  EXPECT_GT(scratch.entries(), 0U);
  EXPECT_THROW(open_packed(scratch.path().string(), kSmallCache), Error);
  write_text(scratch.path() / ".tmp-train-00099.slices-77", "left by a process that was killed");
  options.progress = {};
  pack(small_set(200, 10), options);
  EXPECT_TRUE(verify_packed(scratch.path().string(), 2, {}).damage.empty());
  EXPECT_FALSE(fs::exists(scratch.path() / "train-00008.slices"));
  EXPECT_FALSE(fs::exists(scratch.path() / ".tmp-train-00099.slices-77"));
}

TEST(Pack, RefusesAFolderThatHasSomethingElse) {
  const ScratchFolder scratch;
  write_text(scratch.path() / "thesis.tex", "years of work");
  EXPECT_NE(testing::refusal([&] { pack(small_set(), small_slices(scratch.path())); }).find("thesis.tex"),
            std::string::npos);
  const fs::path set = scratch.path() / "set";
  pack(small_set(), small_slices(set));
  EXPECT_NE(testing::refusal([&] { pack(small_set(), small_slices(set)); }).find("already"),
            std::string::npos);
}

TEST(Verify, NamesFileAndOffsetOfDamage) {
  const ScratchFolder scratch;
  const SliceIndex index = pack(small_set(), small_slices(scratch.path()));
  EXPECT_TRUE(verify_packed(scratch.path().string(), 2, {}).damage.empty());
  const SliceEntry& slice = index.train.slices[6];
  const fs::path file = scratch.path() / index.train.files[slice.file];
  flip_byte(file, slice.offset + slice.bytes / 2);
  const Verified found = verify_packed(scratch.path().string(), 2, {});
  ASSERT_EQ(found.damage.size(), 1U);
  EXPECT_NE(found.damage[0].find(fmt::format("'{}', byte {}", file.string(), slice.offset)),
            std::string::npos);
  fs::resize_file(scratch.path() / index.test.files[0], 10);
  write_text(scratch.path() / index.train.files[0], read_text(scratch.path() / index.train.files[0]) + "x");
  EXPECT_GE(verify_packed(scratch.path().string(), 2, {}).damage.size(), 3U);
}

TEST(PackedSource, ThrowsWithFileAndOffsetWhereASliceIsDamaged) {
  const ScratchFolder scratch;
  const SliceIndex index = pack(small_set(), small_slices(scratch.path()));
  const SliceEntry& slice = index.train.slices[6];
  flip_byte(scratch.path() / index.train.files[slice.file], slice.offset + 60);
  const DataSet packed = open_packed(scratch.path().string(), kSmallCache);
  for (int i = 0; i < 2; ++i) {  // repeatedly
    const std::string message = testing::refusal([&] { sample_of(*packed.train, slice.first + 3); });
    EXPECT_NE(message.find(fmt::format("byte {}:", slice.offset)), std::string::npos) << message;
  }
  EXPECT_EQ(sample_of(*packed.train, slice.first - 1), sample_of(*small_set().train, slice.first - 1));
}

// Images that all have the same label.
class OneLabel final : public Source {
 public:
  explicit OneLabel(std::int64_t label, Shape target_shape = {}) : label_(label) {
    spec_.input_shape = {1, 2, 2};
    spec_.target_shape = std::move(target_shape);
    spec_.classes = 5;
  }
  std::uint64_t size() const override { return 30; }
  void read(std::uint64_t index, void* input, void* target) const override {
    std::memset(input, int(index), 4);
    std::fill_n(static_cast<std::int64_t*>(target), element_count(spec_.target_shape), label_);
  }

 private:
  std::int64_t label_;
};

// Replaces the first training slice with other samples and updates the checksums in the slice and the index.
void lie(const fs::path& folder, SliceIndex index, const std::vector<std::uint8_t>& raw) {
  const std::vector<std::uint8_t> slice = encode_slice(raw, index.train.slices[0].samples, 3);
  index.train.slices[0].bytes = slice.size();
  index.train.slices[0].xxh3 = parse_slice_header(slice, {}).xxh3;
  write_text(folder / index.train.files[0], {reinterpret_cast<const char*>(slice.data()), slice.size()});
  write_text(folder / kIndexName, to_text(index));
}

// Packs labels that packing itself would refuse.
void pack_labels(const fs::path& folder, std::int64_t label, const Shape& target_shape) {
  const DataSet set{std::make_unique<OneLabel>(4, target_shape), std::make_unique<OneLabel>(4, target_shape)};
  const SliceIndex index = pack(set, {.folder = folder, .threads = 1, .origin = "", .progress = {}});
  const SampleBytes each = sample_bytes(index.spec);
  std::vector<std::uint8_t> raw(30 * each.sum());
  for (std::uint64_t at = 30 * each.input; at < raw.size(); at += sizeof label)
    std::memcpy(raw.data() + at, &label, sizeof label);
  lie(folder, index, raw);
}

TEST(PackedSource, LetsTargetsOfSeveralElementsLackSome) {
  SampleSpec spec;
  spec.classes = 5;
  spec.target_share = 0.5;
  EXPECT_FALSE(is_class(spec, kNoTarget)) << "one class each: who counts them trusts it";
  spec.target_shape = {3};
  EXPECT_TRUE(is_class(spec, kNoTarget));
  EXPECT_FALSE(is_class(spec, -1));
  spec.target_share = 0;
  EXPECT_FALSE(is_class(spec, kNoTarget));
}

TEST(PackedSource, RefusesTargetsThatAreNoClasses) {
  for (const Shape& shape : {Shape{}, Shape{3}})
    for (const std::int64_t label : {std::int64_t{-1}, std::int64_t{5}, std::int64_t{1} << 60}) {
      const ScratchFolder scratch;
      pack_labels(scratch.path(), label, shape);
      const DataSet packed = open_packed(scratch.path().string(), {});
      const std::string place =
          fmt::format("'{}', byte 0: sample 0 of the slice has class {}, outside 0 to 4",
                      (scratch.path() / "train-00000.slices").string(), label);
      std::vector<std::int64_t> target(3);
      std::vector<std::uint8_t> input(4);
      const std::string message =
          testing::refusal([&] { packed.train->read(0, input.data(), target.data()); });
      EXPECT_NE(message.find(place), std::string::npos) << message;
      packed.test->read(0, input.data(), target.data());
      EXPECT_EQ(target[0], 4);
      ASSERT_EQ(verify_packed(scratch.path().string(), 1, {}).damage.size(), 1U);
    }
}

// Changes one number of the second sample's input, then expects reading and verification to refuse the set.
void expect_refused(const DataSet& set, std::uint64_t at, std::int64_t number, const std::string& why) {
  const ScratchFolder scratch;
  const SliceIndex index = pack(set, {.folder = scratch.path(), .threads = 1, .origin = "", .progress = {}});
  const SampleBytes each = sample_bytes(index.spec);
  std::vector<std::uint8_t> raw(set.train->size() * each.sum());
  for (std::uint64_t i = 0; i < set.train->size(); ++i)
    set.train->read(i, raw.data() + i * each.input,
                    raw.data() + set.train->size() * each.input + i * each.target);
  std::memcpy(raw.data() + each.input + at * sizeof number, &number, sizeof number);
  lie(scratch.path(), index, raw);
  const std::string place = fmt::format("'{}', byte 0: sample 1 of the slice has {}",
                                        (scratch.path() / "train-00000.slices").string(), why);
  const DataSet packed = open_packed(scratch.path().string(), {});
  std::vector<std::int64_t> input(each.input / sizeof(std::int64_t)), target(each.target / 8);
  const std::string message = testing::refusal([&] { packed.train->read(0, input.data(), target.data()); });
  EXPECT_NE(message.find(place), std::string::npos) << message;
  const Verified found = verify_packed(scratch.path().string(), 1, {});
  ASSERT_EQ(found.damage.size(), 1U);
  EXPECT_NE(found.damage[0].find(place), std::string::npos) << found.damage[0];
}

TEST(PackedSource, RefusesTokensThatTheIndexHasNot) {
  const SyntheticTokens::Options few{.samples = 5, .length = 6, .vocabulary = 20};
  const DataSet set{std::make_unique<SyntheticTokens>(Part::kTrain, few),
                    std::make_unique<SyntheticTokens>(Part::kTest, few)};
  for (const std::int64_t token : {std::int64_t{-1}, std::int64_t{20}, std::int64_t{123'456}})
    expect_refused(set, 5, token, fmt::format("token {}, outside 0 to 19", token));
}

TEST(PackedSource, RefusesTreesThatAreNone) {
  const DataSet set{std::make_unique<SyntheticLogic>(Part::kTrain, SyntheticLogic::Options{.samples = 5}),
                    std::make_unique<SyntheticLogic>(Part::kTest, SyntheticLogic::Options{.samples = 5})};
  for (const std::int64_t parent : {std::int64_t{-77}, std::int64_t{14}, std::int64_t{123'456}})
    expect_refused(set, 29, parent, fmt::format("{} as the parent of node 14", parent));
  expect_refused(set, 5, 1, "1 as the parent of node 2, which is neither -1 nor 3 to 14");
  for (const std::int64_t token : {std::int64_t{-1}, std::int64_t{8}})
    expect_refused(set, 28, token, fmt::format("token {}, outside 0 to 7", token));
}

TEST(PackedSource, RefusesACacheThatHoldsTooFewSlices) {
  const ScratchFolder scratch;
  pack(small_set(), small_slices(scratch.path()));
  EXPECT_NE(
      testing::refusal([&] { open_packed(scratch.path().string(), {.cache_bytes = 4000}); }).find("cache_mb"),
      std::string::npos);
}

std::vector<std::uint64_t> loaded(const Source& source, std::uint64_t lane, std::uint64_t lanes,
                                  int threads) {
  const BatchMaker maker(source, {});
  const EpochPlan plan{source.size(), 64, 4};
  Loader loader(maker,
                {.plan = plan, .seed = 3, .first_lane = lane, .end_lane = lane + lanes, .threads = threads});
  std::vector<std::uint64_t> samples;
  for (std::uint64_t i = 0; i < plan.steps() * lanes; ++i) {
    const Batch& batch = loader.next();
    for (std::uint64_t s = 0; s < batch.size; ++s) {
      EXPECT_EQ(batch.target.as<std::int64_t>()[s], std::int64_t(batch.samples[s] % 5));
      samples.push_back(batch.samples[s]);
    }
  }
  return samples;
}

TEST(PackedSource, DeliversEachSampleOnceAndTheSameToAnyNumberOfLoaders) {
  const ScratchFolder scratch;
  pack(small_set(), small_slices(scratch.path()));
  const DataSet packed = open_packed(scratch.path().string(), kSmallCache);
  std::vector<std::uint64_t> whole = loaded(*packed.train, 0, 4, 3);
  std::vector<std::uint64_t> parts;
  for (std::uint64_t lane = 0; lane < 4; ++lane) {
    const std::vector<std::uint64_t> own = loaded(*packed.train, lane, 1, int(lane % 2));
    parts.insert(parts.end(), own.begin(), own.end());
  }
  std::sort(whole.begin(), whole.end());
  std::sort(parts.begin(), parts.end());
  EXPECT_EQ(whole, parts);
  EXPECT_EQ(std::set(whole.begin(), whole.end()).size(), packed.train->size());
}

// 1000 samples in slices of 28: a limit of 700 reads runs of 10 from at least 64 places.
TEST(PackedSource, ALimitTakesRunsFromAllOverTheSet) {
  const ScratchFolder scratch;
  const DataSet whole = small_set();
  pack(whole, small_slices(scratch.path()));
  DataConfig config;
  config.name = "packed";
  config.path = scratch.path().string();
  for (const std::int64_t limit : {1, 70, 700, 1002}) {
    config.train_limit = limit;
    const DataSet set = open_data_set(config);
    ASSERT_EQ(set.train->size(), std::uint64_t(limit));
    std::vector<std::uint64_t> places;  // indices of its samples in the whole set
    for (std::uint64_t i = 0, at = 0; i < set.train->size(); ++i, ++at) {
      while (at < whole.train->size() && !(sample_of(*whole.train, at) == sample_of(*set.train, i))) ++at;
      ASSERT_LT(at, whole.train->size()) << "in the set's order, none twice";
      places.push_back(at);
    }
    std::uint64_t gap = 0;
    for (std::size_t i = 1; i < places.size(); ++i) gap = std::max(gap, places[i] - places[i - 1] - 1);
    const std::map<std::int64_t, std::uint64_t> gaps{{1, 0}, {70, 14}, {700, 5}, {1002, 0}};
    EXPECT_EQ(gap, gaps.at(limit)) << limit;
    const Locality locality = set.train->locality();
    EXPECT_EQ(locality.slice, limit == 1 ? 28U : limit == 70 ? 1U : limit == 700 ? 10U : 15U);
    for (std::uint64_t begin = 0; begin < set.train->size(); begin += 64)
      set.train->announce({begin, begin + 64});
  }
}

}  // namespace
}  // namespace distbelief::data
