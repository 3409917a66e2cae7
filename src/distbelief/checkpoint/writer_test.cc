#include "distbelief/checkpoint/writer.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <future>

#include "distbelief/testing/file_size_limit.h"
#include "distbelief/testing/sample_parts.h"

namespace distbelief::checkpoint {
namespace {

using Kind = Writer::Kind;
constexpr std::chrono::seconds kLong{30};

// Blocks the writer's thread at its next save until it is opened.
class Gate {
 public:
  ~Gate() { open(); }
  AtPoint at() {
    return [this](const std::string& point) {
      if (!point.starts_with("begin")) return;
      arrived_.set_value();
      opened_.wait_for(kLong);
    };
  }
  bool wait_for_writer() { return arrived_.get_future().wait_for(kLong) == std::future_status::ready; }
  void open() {
    if (!std::exchange(is_open_, true)) open_.set_value();
  }

 private:
  std::promise<void> arrived_, open_;
  std::shared_future<void> opened_{open_.get_future()};
  bool is_open_ = false;
};

class WriterTest : public ::testing::Test {
 protected:
  Writer::Options options(Store::Options store = {}) const {
    return {.folder = folder(), .keep = 2, .store = std::move(store)};
  }
  std::filesystem::path folder() const { return scratch_.path() / "checkpoints"; }
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> result;
    for (const Entry& entry : Store(folder()).list()) result.push_back(entry.step);
    return result;
  }
  Loaded load(std::int64_t step) const {
    for (const Entry& entry : Store(folder()).list())
      if (entry.step == step) return Store(folder()).load(entry);
    throw std::runtime_error("no such step");
  }
  static Writer::Outcome finish(Writer& writer) {
    writer.wait();
    std::optional<Writer::Outcome> outcome = writer.take_outcome();
    return outcome ? *outcome : throw std::runtime_error("no outcome");
  }

  ScratchFolder scratch_;
};

TEST_F(WriterTest, SavesMarksTheBestAndPrunes) {
  testing::SampleState state(1);
  Writer writer(options());
  for (std::int64_t step : {1, 2, 3, 4}) {
    state.fill(step);
    writer.save(state.snapshot(step), step == 1 ? Kind::kBest : Kind::kRegular);
  }
  writer.wait();
  for (std::int64_t step : {1, 2, 3, 4}) {
    const auto outcome = writer.take_outcome();
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->step, step);
    EXPECT_TRUE(outcome->on_disk);
    EXPECT_FALSE(outcome->failure);
    EXPECT_GT(outcome->seconds.count(), 0);
  }
  EXPECT_FALSE(writer.take_outcome());
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1, 3, 4}));
  EXPECT_EQ(Store(folder()).best()->step, 1);
  EXPECT_TRUE(testing::SampleState(3).is_in(load(3)));
  EXPECT_EQ(testing::count_temporaries(folder()), 0u);
}

TEST_F(WriterTest, ComputesTheHashOfTheParametersAlone) {
  const testing::SampleState state(7);
  Writer writer(options());
  writer.save(state.snapshot(1), Kind::kRegular);
  writer.wait();
  EXPECT_EQ(load(1).weights_sha256(), sha256_by_name(state.views().first(testing::SampleState::kParameters)));
}

TEST_F(WriterTest, ReturnsBeforeAnythingIsWrittenAndKeepsWhatTheTensorsHeldThen) {
  Gate gate;
  testing::SampleState state(5);
  Writer writer(options({.may_commit = {}, .at = gate.at()}));
  writer.save(state.snapshot(5), Kind::kRegular);
  ASSERT_TRUE(gate.wait_for_writer());
  EXPECT_FALSE(std::filesystem::exists(folder()));
  EXPECT_FALSE(writer.take_outcome());
  state.fill(6);  // training goes on
  gate.open();
  EXPECT_TRUE(finish(writer).on_disk);
  EXPECT_TRUE(testing::SampleState(5).is_in(load(5)));
}

TEST_F(WriterTest, ASecondSaveWaitsForTheFirst) {
  std::promise<void> arrived, open;
  bool first = true;
  const AtPoint at = [&](const std::string&) {
    if (!std::exchange(first, false)) return;
    arrived.set_value();
    open.get_future().wait_for(kLong);
  };
  const testing::SampleState one(1), two(2);
  Writer writer(options({.may_commit = {}, .at = at}));
  writer.save(one.snapshot(1), Kind::kRegular);
  ASSERT_EQ(arrived.get_future().wait_for(kLong), std::future_status::ready);
  std::future<void> second =
      std::async(std::launch::async, [&] { writer.save(two.snapshot(2), Kind::kRegular); });
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  open.set_value();
  ASSERT_EQ(second.wait_for(kLong), std::future_status::ready);
  EXPECT_EQ(writer.take_outcome()->step, 1);
  writer.wait();
  EXPECT_TRUE(one.is_in(load(1)));
  EXPECT_TRUE(two.is_in(load(2)));
}

TEST_F(WriterTest, TheDestructorLetsTheSaveInFlightEnd) {
  const testing::SampleState state(1);
  { Writer(options()).save(state.snapshot(1), Kind::kRegular); }
  EXPECT_TRUE(state.is_in(load(1)));
}

TEST_F(WriterTest, ReportsAFullDiskKeepsTheOldCheckpointAndSavesAgainWhenThereIsRoom) {
  const testing::SampleState state(1);
  Writer writer(options());
  writer.save(state.snapshot(1), Kind::kRegular);
  ASSERT_TRUE(finish(writer).on_disk);
  {
    const testing::FileSizeLimit limit(500);
    writer.save(state.snapshot(2), Kind::kRegular);
    const Writer::Outcome outcome = finish(writer);
    EXPECT_EQ(outcome.step, 2);
    EXPECT_FALSE(outcome.on_disk);
    ASSERT_TRUE(outcome.failure);
    EXPECT_EQ(outcome.failure->code(), ErrorCode::kUnavailable);
    const std::string& message = outcome.failure->message();
    for (const char* part : {"the checkpoint of step 2 was not saved", "state.safetensors", "make room"})
      EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  EXPECT_EQ(steps(), std::vector<std::int64_t>{1});
  EXPECT_TRUE(state.is_in(load(1)));
  EXPECT_EQ(testing::count_temporaries(folder()), 0u);
  writer.save(state.snapshot(2), Kind::kRegular);
  EXPECT_TRUE(finish(writer).on_disk);
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1, 2}));
}

TEST_F(WriterTest, ReportsWhatIsThrownAtAnyPointOfASave) {
  const testing::SampleState state(1);
  std::string thrown_at;
  const AtPoint at = [&](const std::string& point) {
    if (point == thrown_at) throw std::runtime_error("thrown at " + point);
  };
  Writer writer(options({.may_commit = {}, .at = at}));
  for (const char* point : {"begin step-00000001", "write state.safetensors", "sync state.safetensors",
                            "write manifest.json", "rename step-00000001"}) {
    thrown_at = point;
    writer.save(state.snapshot(1), Kind::kRegular);
    const Writer::Outcome outcome = finish(writer);
    ASSERT_TRUE(outcome.failure) << point;
    EXPECT_EQ(outcome.failure->message(), std::string("thrown at ") + point);
    EXPECT_FALSE(outcome.on_disk) << point;
    EXPECT_TRUE(steps().empty()) << point;
  }
  thrown_at = "write best.json";
  writer.save(state.snapshot(1), Kind::kBest);
  const Writer::Outcome outcome = finish(writer);
  EXPECT_TRUE(outcome.failure);
  EXPECT_TRUE(outcome.on_disk);
  EXPECT_EQ(steps(), std::vector<std::int64_t>{1});
}

TEST_F(WriterTest, DiscardsACheckpointThatMayNotBeCommitted) {
  const testing::SampleState state(1);
  int asked = 0, allowed = 1'000;
  Writer writer(options({.may_commit = [&] { return ++asked <= allowed; }, .at = {}}));
  writer.save(state.snapshot(1), Kind::kBest);
  ASSERT_TRUE(finish(writer).on_disk);
  // Refused at once, and after everything is written.
  for (int before : {0, 1}) {
    asked = 0;
    allowed = before;
    writer.save(state.snapshot(2), Kind::kBest);
    const Writer::Outcome outcome = finish(writer);
    ASSERT_TRUE(outcome.failure);
    EXPECT_EQ(outcome.failure->code(), ErrorCode::kAborted);
    EXPECT_NE(outcome.failure->message().find("another generation of workers has taken over"),
              std::string::npos);
    EXPECT_EQ(asked, before + 1);
    EXPECT_EQ(steps(), std::vector<std::int64_t>{1});
    EXPECT_EQ(Store(folder()).best()->step, 1);
    EXPECT_EQ(testing::count_temporaries(folder()), 0u);
  }
}

TEST_F(WriterTest, LeavesTheFolderOfAnotherGenerationAlone) {
  std::filesystem::create_directories(folder() / ".tmp-step-00000009-1");  // another generation's save
  const testing::SampleState state(1);
  Writer writer(options({.may_commit = [] { return false; }, .at = {}}));
  writer.save(state.snapshot(1), Kind::kRegular);
  EXPECT_TRUE(finish(writer).failure);
  EXPECT_EQ(testing::count_temporaries(folder()), 1u);
}

TEST_F(WriterTest, OfSeveralPartsThatOfPart0AloneMarksAndPrunes) {
  const testing::SampleState state(1);
  std::vector<std::string> second_did;
  {
    Writer first(options());
    Writer second(
        options({.may_commit = {}, .at = [&](const std::string& point) { second_did.push_back(point); }}));
    for (std::int64_t step : {1, 2, 3}) {
      const std::string attempt = "try-" + std::to_string(step);
      first.save(testing::SamplePart(state, 0, 2).snapshot(step, attempt), Kind::kBest);
      second.save(testing::SamplePart(state, 1, 2).snapshot(step, attempt), Kind::kBest);
    }
    for (Writer* writer : {&first, &second}) {
      writer->wait();
      for (int i = 0; i < 3; ++i) {
        const auto outcome = writer->take_outcome();
        ASSERT_TRUE(outcome);
        EXPECT_TRUE(outcome->on_disk);
        EXPECT_FALSE(outcome->failure) << outcome->failure->message();
      }
    }
  }
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(Store(folder()).best()->step, 3);
  for (const std::string& point : second_did)
    EXPECT_TRUE(point.starts_with("begin") || point.find("state-00002-of-00002") != std::string::npos)
        << point;
}

TEST_F(WriterTest, ItsThreadHasANameAndALowPriority) {
  char name[16] = {};
  int niceness = 0;
  const AtPoint at = [&](const std::string&) {
    pthread_getname_np(pthread_self(), name, sizeof name);
    niceness = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
  };
  const testing::SampleState state(1);
  Writer writer(options({.may_commit = {}, .at = at}));
  writer.save(state.snapshot(1), Kind::kRegular);
  writer.wait();
  EXPECT_STREQ(name, "db-checkpoint");
  EXPECT_EQ(niceness, std::max(10, getpriority(PRIO_PROCESS, 0)));
}

TEST(TensorCopy, KeepsItsMemoryFromOneCopyToTheNext) {
  const testing::SampleState state(1);
  TensorCopy copy;
  const std::byte* first = copy.assign(state.views())[0].data;
  const std::size_t capacity = copy.capacity_bytes();
  EXPECT_EQ(copy.assign(state.views().first(2))[0].data, first);
  EXPECT_EQ(copy.assign(state.views())[0].data, first);
  EXPECT_EQ(copy.capacity_bytes(), capacity);
}

}  // namespace
}  // namespace distbelief::checkpoint
