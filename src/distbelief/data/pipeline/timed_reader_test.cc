#include "distbelief/data/pipeline/timed_reader.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "distbelief/base/error.h"
#include "distbelief/data/generated/synthetic.h"
#include "distbelief/testing/refusal.h"

namespace distbelief::data {
namespace {

using namespace std::chrono_literals;
using ::testing::IsSubstring;

// Reads of sample 30 block until open(), as on a dead file server.
class Hanging : public Source {
 public:
  explicit Hanging(const Source& inner) : inner_(inner) { spec_ = inner.spec(); }
  std::uint64_t size() const override { return inner_.size(); }
  void read(std::uint64_t index, void* input, void* target) const override {
    if (index == 31) throw Error(ErrorCode::kBadInput, "sample 31 is damaged");
    if (index == 30) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return is_open_; });
      has_left_ = true;
      changed_.notify_all();
    }
    inner_.read(index, input, target);
  }
  // Releases the reader and waits until it has finished.
  void open() {
    std::unique_lock lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return has_left_; });
  }

 private:
  const Source& inner_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool is_open_ = false;
  mutable bool has_left_ = false;
};

const SyntheticImages& tiny_images() {
  static const SyntheticImages source(Part::kTest, {.samples = 40, .height = 6, .width = 6});
  return source;
}

std::vector<std::byte> bytes_of(const Batch& batch) {
  return {batch.input.data(), batch.input.data() + batch.input.byte_count()};
}

TEST(TimedReader, ReadsWhatTheMakerWould) {
  const BatchMaker maker(tiny_images(), {});
  TimedReader reader(maker, {});
  for (const Range range : {Range{0, 7}, Range{20, 40}, Range{0, 7}}) {
    Batch wanted;
    maker.eval_batch(range, wanted);
    const Batch& found = reader.read(range, 0);
    EXPECT_EQ(found.samples, wanted.samples);
    EXPECT_EQ(bytes_of(found), bytes_of(wanted));
  }
}

TEST(TimedReader, ASampleThatNeverComesCostsTheDeadline) {
  static Hanging source(tiny_images());  // both stay alive, because the reading thread is abandoned
  static const BatchMaker maker(source, {});
  TimedReader reader(maker, {.deadline = 50ms, .rank = 3});
  reader.read({0, 20}, 4);
  for (int i = 0; i < 2; ++i) {
    const auto began = std::chrono::steady_clock::now();
    try {
      reader.read({20, 31}, 5);
      ADD_FAILURE() << "sample 30 does not come";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kTimeout);
      EXPECT_EQ(error.where().rank, 3);
      EXPECT_EQ(error.where().step, 5);
      EXPECT_PRED_FORMAT2(IsSubstring, "not there after 50 ms: the data source did not answer",
                          error.message());
    }
    EXPECT_LT(std::chrono::steady_clock::now() - began, 30s);
  }
  source.open();
}

TEST(TimedReader, WhatReadingThrowsIsThrownAndTheNextReadIsTriedAgain) {
  const Hanging source(tiny_images());
  const BatchMaker maker(source, {});
  TimedReader reader(maker, {});
  EXPECT_PRED_FORMAT2(IsSubstring, "sample 31 is damaged", testing::refusal([&] {
                        reader.read({31, 33}, 0);
                      }));
  EXPECT_EQ(reader.read({32, 40}, 0).samples.size(), 8U);
}

}  // namespace
}  // namespace distbelief::data
