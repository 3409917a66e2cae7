#include "distbelief/data/pipeline/loader.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/data/generated/synthetic.h"

namespace distbelief::data {
namespace {

using namespace std::chrono_literals;

struct Delivered {
  std::uint64_t epoch, step, lane;
  std::vector<std::uint64_t> samples;
  std::vector<std::byte> input;
  bool operator==(const Delivered&) const = default;
};

std::vector<Delivered> take(Loader& loader, std::size_t count) {
  std::vector<Delivered> all;
  for (std::size_t i = 0; i < count; ++i) {
    const Batch& batch = loader.next();
    EXPECT_EQ(batch.samples.size(), batch.size);
    const std::byte* input = batch.input.data();
    all.push_back(
        {batch.epoch, batch.step, batch.lane, batch.samples, {input, input + batch.input.byte_count()}});
  }
  return all;
}

const SyntheticImages& images() {
  static const SyntheticImages source(Part::kTrain, {.samples = 103, .height = 6, .width = 6});
  return source;
}

Loader::Options three_lanes() {
  return {.plan = {.samples = 103, .batch = 16, .lanes = 3}, .seed = 2, .first_lane = 0, .end_lane = 3};
}

const BatchMaker& augmenting_maker() {
  static const BatchMaker maker(images(), {.seed = 8, .augment_pad_crop = true, .augment_flip = true});
  return maker;
}

TEST(Loader, DeliversStepsAsTheyAreAnnounced) {
  const std::array<std::uint64_t, 5> steps = {9, 2, 14, 0, 3};  // an epoch has 7 steps
  for (const int threads : {0, 1, 3}) {
    for (const auto own_below : {0ns, std::chrono::nanoseconds(1h)}) {
      Loader::Options options = three_lanes();
      options.threads = threads;
      options.own_below = own_below;
      options.is_told = true;
      Loader loader(augmenting_maker(), options);
      loader.announce(steps[0]);
      for (int round = 0; round < 8; ++round)
        for (std::size_t i = 0; i < steps.size(); ++i) {
          loader.announce(steps[(i + 1) % steps.size()]);
          Loader::Options plain = three_lanes();
          plain.threads = 0;
          plain.epoch = steps[i] / 7;
          plain.step = steps[i] % 7;
          Loader reference(augmenting_maker(), plain);
          EXPECT_EQ(take(loader, 3), take(reference, 3)) << threads << " threads, step " << steps[i];
        }
    }
  }
}

TEST(Loader, DeliversTheSameBatchesWithAnyThreadsAndPrefetch) {
  Loader::Options options = three_lanes();
  options.threads = 0;
  Loader reference(augmenting_maker(), options);
  const std::vector<Delivered> expected = take(reference, 60);
  for (const int threads : {0, 1, 3}) {
    for (const int prefetch : {1, 2, 3, 8, 100}) {
      options.threads = threads;
      options.prefetch = prefetch;
      Loader loader(augmenting_maker(), options);
      ASSERT_EQ(take(loader, 60), expected) << threads << " threads, prefetch " << prefetch;
    }
  }
}

TEST(Loader, GoesLaneByLaneStepByStepEpochByEpoch) {
  Loader::Options options = three_lanes();
  options.first_lane = 1;
  Loader loader(augmenting_maker(), options);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    const Permutation order(103, 2, epoch);
    for (std::uint64_t step = 0; step < 7; ++step) {
      for (std::uint64_t lane = 1; lane < 3; ++lane) {
        const Batch& batch = loader.next();
        ASSERT_EQ((std::array{batch.epoch, batch.step, batch.lane}), (std::array{epoch, step, lane}));
        const Range range = options.plan.lane_range(step, lane);
        ASSERT_EQ(batch.size, range.size());
        for (std::uint64_t i = 0; i < batch.size; ++i) ASSERT_EQ(batch.samples[i], order(range.begin + i));
      }
    }
  }
}

TEST(Loader, StartingLaterGivesTheTailOfARunFromTheStart) {
  Loader::Options options = three_lanes();
  Loader from_start(augmenting_maker(), options);
  const std::vector<Delivered> all = take(from_start, 2 * 7 * 3);
  for (const auto& [epoch, step] :
       std::vector<std::pair<std::size_t, std::size_t>>{{0, 1}, {0, 7}, {1, 0}, {1, 3}}) {
    options.epoch = epoch;
    options.step = step;
    Loader loader(augmenting_maker(), options);
    const std::size_t skipped = (epoch * 7 + step) * 3;
    EXPECT_EQ(take(loader, all.size() - skipped), std::vector(all.begin() + skipped, all.end()));
  }
}

TEST(Loader, WorkersTogetherSeeEverySampleOnceAnEpoch) {
  for (const std::uint64_t workers : {1, 2, 3}) {
    const EpochPlan plan{.samples = 103, .batch = 20, .lanes = 6};
    const std::uint64_t lanes_each = 6 / workers;
    std::map<std::uint64_t, int> seen;
    for (std::uint64_t worker = 0; worker < workers; ++worker) {
      const Loader::Options options{.plan = plan,
                                    .first_lane = worker * lanes_each,
                                    .end_lane = (worker + 1) * lanes_each,
                                    .epoch = 4,
                                    .threads = 2};
      Loader loader(augmenting_maker(), options);
      for (const Delivered& batch : take(loader, plan.steps() * lanes_each)) {
        EXPECT_EQ(batch.epoch, 4U);
        for (const std::uint64_t sample : batch.samples) ++seen[sample];
      }
    }
    ASSERT_EQ(seen.size(), 103U);
    for (const auto& entry : seen) EXPECT_EQ(entry.second, 1) << "sample " << entry.first;
  }
}

TEST(Loader, BatchStaysAsItIsUntilTheNextCall) {
  Loader::Options options = three_lanes();
  options.prefetch = 1;
  options.threads = 3;
  Loader loader(augmenting_maker(), options);
  for (int i = 0; i < 50; ++i) {
    const Batch& batch = loader.next();
    const std::vector<std::uint64_t> samples = batch.samples;
    std::this_thread::yield();
    ASSERT_EQ(batch.samples, samples);
  }
}

// One-byte samples behind a gate; counts the reads that passed. A batch is one sample.
class GatedSource : public Source {
 public:
  GatedSource() {
    spec_.input_shape = {1, 1, 1};
    spec_.classes = 2;
  }
  std::uint64_t size() const override { return 1000; }
  void read(std::uint64_t, void* input, void* target) const override {
    *static_cast<std::byte*>(input) = std::byte{1};
    *static_cast<std::int64_t*>(target) = 1;
    std::unique_lock lock(mutex_);
    ++started_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    pthread_getname_np(pthread_self(), thread_name_.data(), thread_name_.size());
    ++finished_;
    changed_.notify_all();
  }

  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool wait_started(int count) const {
    return wait_until([&] { return started_ >= count; });
  }
  bool wait_finished(int count) const {
    return wait_until([&] { return finished_ >= count; });
  }
  int finished() const { return finished_; }
  std::string thread_name() const { return thread_name_.data(); }

 private:
  template <typename Condition>
  bool wait_until(Condition condition) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 60s, condition);
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int started_ = 0;
  mutable int finished_ = 0;
  mutable std::array<char, 16> thread_name_{};
  bool open_ = false;
};

Loader::Options one_by_one() { return {.plan = {.samples = 1000, .batch = 1, .lanes = 1}}; }

TEST(Loader, WorksAheadByPrefetchAndNoFurther) {
  GatedSource source;
  source.open();
  const BatchMaker maker(source, {});
  for (const int threads : {1, 3}) {
    const int before = source.finished();
    {
      Loader::Options options = one_by_one();
      options.threads = threads;
      Loader loader(maker, options);
      ASSERT_TRUE(source.wait_finished(before + 8));
    }
    EXPECT_EQ(source.finished(), before + 8);
  }
  EXPECT_EQ(source.thread_name(), "db-loader");
}

TEST(Loader, RefillsOnlyWhenHalfEmpty) {
  GatedSource source;
  source.open();
  const BatchMaker maker(source, {});
  {
    Loader loader(maker, one_by_one());
    ASSERT_TRUE(source.wait_finished(8));
    take(loader, 3);
  }
  EXPECT_EQ(source.finished(), 8);
  {
    Loader loader(maker, one_by_one());
    ASSERT_TRUE(source.wait_finished(16));
    take(loader, 4);
    ASSERT_TRUE(source.wait_finished(20));
  }
  EXPECT_EQ(source.finished(), 20);
}

TEST(Loader, FillsCheapBatchesOnTheCallersThreadAndDearOnesNot) {
  GatedSource source;
  source.open();
  const BatchMaker maker(source, {});
  for (const bool cheap : {true, false}) {
    Loader::Options options = one_by_one();
    options.own_below = cheap ? std::chrono::nanoseconds(1h) : std::chrono::nanoseconds(0);
    const int before = source.finished();
    Loader loader(maker, options);
    ASSERT_TRUE(source.wait_finished(before + 8));
    take(loader, 30);
    if (cheap)
      EXPECT_NE(source.thread_name(), "db-loader");
    else
      EXPECT_EQ(source.thread_name(), "db-loader");
  }
}

TEST(Loader, EndsWhileItsThreadsAreReading) {
  GatedSource source;
  const BatchMaker maker(source, {});
  std::jthread opener;
  {
    Loader::Options options = one_by_one();
    options.threads = 3;
    Loader loader(maker, options);
    ASSERT_TRUE(source.wait_started(3));
    opener = std::jthread([&source] { source.open(); });
  }
  EXPECT_GE(source.finished(), 3);
}

TEST(Loader, EndsAtAnyMoment) {
  Loader::Options options = three_lanes();
  options.threads = 2;
  for (std::size_t taken = 0; taken < 40; ++taken) {
    Loader loader(augmenting_maker(), options);
    EXPECT_EQ(take(loader, taken).size(), taken);
  }
}

TEST(Loader, NamesTheWaitWhenTheDeadlinePasses) {
  GatedSource source;
  const BatchMaker maker(source, {});
  Loader::Options options = one_by_one();
  options.deadline = 5ms;
  options.epoch = 2;
  options.step = 1;
  options.rank = 3;
  Loader loader(maker, options);
  try {
    loader.next();
    ADD_FAILURE() << "a batch came through a closed gate";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_EQ(error.where().operation, "load batch");
    EXPECT_EQ(error.where().rank, 3);
    EXPECT_EQ(error.where().step, std::int64_t(2 * options.plan.steps() + 1));
    EXPECT_NE(error.message().find("lane 0"), std::string::npos) << error.message();
  }
  source.open();
  ASSERT_TRUE(source.wait_finished(1));
}

class FailingSource : public GatedSource {
 public:
  void read(std::uint64_t index, void* input, void* target) const override {
    if (index == 77) throw Error(ErrorCode::kUnavailable, "sample 77 is gone");
    *static_cast<std::byte*>(input) = std::byte{1};
    *static_cast<std::int64_t*>(target) = 1;
  }
};

TEST(Loader, ThrowsASourcesErrorInTheTurnOfItsBatch) {
  const FailingSource source;
  const BatchMaker maker(source, {});
  const Permutation order(100, 0, 0);
  std::size_t position = 0;
  while (order(position) != 77) ++position;
  for (const int threads : {0, 1, 3}) {
    Loader::Options options = one_by_one();
    options.plan.samples = 100;
    options.threads = threads;
    options.own_below = 1h;
    Loader loader(maker, options);
    take(loader, position);
    for (int again = 0; again < 3; ++again) {
      try {
        loader.next();
        ADD_FAILURE() << "no error with " << threads << " threads";
      } catch (const Error& error) {
        EXPECT_EQ(error.message(), "sample 77 is gone");
      }
    }
  }
}

TEST(Loader, RefusesWhatCannotBeMeant) {
  const auto with = [](auto change) {
    Loader::Options options = three_lanes();
    change(options);
    Loader(augmenting_maker(), options).next();
  };
  EXPECT_THROW(with([](Loader::Options& options) { options.prefetch = 0; }), Error);
  EXPECT_THROW(with([](Loader::Options& options) { options.threads = -1; }), Error);
  EXPECT_THROW(with([](Loader::Options& options) { options.plan.samples = 0; }), Error);
  EXPECT_THROW(with([](Loader::Options& options) { options.plan.batch = 0; }), Error);
}

}  // namespace
}  // namespace distbelief::data
