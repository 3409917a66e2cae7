// Faults of checkpoints in parts: damage, and the end of a process at any moment of a save.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "distbelief/base/random.h"
#include "distbelief/checkpoint/manifest.h"
#include "distbelief/checkpoint/writer.h"
#include "distbelief/testing/damage.h"
#include "distbelief/testing/sample_parts.h"

namespace distbelief::checkpoint {
namespace {

namespace fs = std::filesystem;

class PartDamageTest : public testing::DamageFixture {
 protected:
  PartDamageTest() {
    store_.save(testing::SampleState(1).snapshot(1));
    for (const testing::PartOutcome& outcome : testing::save_parts(folder_, {.step = 2, .value = 2}))
      EXPECT_FALSE(outcome.code) << outcome.message;
  }

  std::vector<std::string> parts_{"state-00001-of-00002.safetensors", "state-00002-of-00002.safetensors"};
};

TEST_F(PartDamageTest, EachOfManyFlippedBitsAndTruncationsIsNoticed) {
  const std::vector<fs::path> files{file(parts_[0]), file(parts_[1]), file("manifest.json")};
  SplitMix64 random(20'260'102);
  for (int i = 0; i < 300; ++i) {
    const fs::path& path = files[random.below(files.size())];
    const std::string whole = read_text(path);
    const std::uint64_t bit = random.below(whole.size() * 8);
    const bool cut = random.below(3) == 0;
    testing::rewrite(path, cut ? whole.substr(0, bit / 8) : testing::flipped(whole, bit));
    const std::string what =
        path.filename().string() + (cut ? " cut at bit " : " flipped bit ") + std::to_string(bit);
    EXPECT_NE(complaint().find(path.string()), std::string::npos) << what;
    expect_older_one_loads(what);
    testing::rewrite(path, whole);
  }
  EXPECT_EQ(complaint(), "");
}

TEST_F(PartDamageTest, NamesFileAndTensorOfEachPart) {
  for (const std::string& part : parts_) {
    const std::string whole = read_text(file(part));
    const std::string last = [&] {
      const SafetensorsFile parsed(file(part));
      const auto all = parsed.tensors();
      return std::max_element(all.begin(), all.end(),
                              [](const TensorView& a, const TensorView& b) {
                                return a.data + a.byte_count() < b.data + b.byte_count();
                              })
          ->name;
    }();
    testing::rewrite(file(part), testing::flipped(whole, whole.size() * 8 - 1));
    EXPECT_NE(complaint().find(part + " is damaged: the checksum of tensor '" + last + "'"),
              std::string::npos)
        << complaint();
    testing::rewrite(file(part), whole.substr(0, whole.size() - 1));
    EXPECT_NE(complaint().find("tensor '" + last), std::string::npos) << complaint();
    EXPECT_NE(complaint().find("is cut off"), std::string::npos) << complaint();
    testing::rewrite(file(part), whole);
  }
}

TEST_F(PartDamageTest, NamesAMissingPart) {
  for (const std::string& part : parts_) {
    const std::string whole = read_text(file(part));
    fs::remove(file(part));
    EXPECT_NE(complaint().find(part + " is missing, one of 2 files"), std::string::npos) << complaint();
    expect_older_one_loads(part);
    testing::rewrite(file(part), whole);
  }
}

TEST_F(PartDamageTest, NoticesPartsThatChangedPlaces) {
  fs::rename(file(parts_[0]), file("other"));
  fs::rename(file(parts_[1]), file(parts_[0]));
  fs::rename(file("other"), file(parts_[1]));
  EXPECT_NE(complaint().find(parts_[0] + " is damaged"), std::string::npos) << complaint();
}

TEST_F(PartDamageTest, RefusesAManifestThatDoesNotNameAllParts) {
  const auto whole = nlohmann::json::parse(read_text(file("manifest.json")));
  auto lacking = whole, renamed = whole, older = whole;
  lacking["files"].erase(parts_[1]);
  renamed["files"]["state-00003-of-00002.safetensors"] = renamed["files"][parts_[1]];
  renamed["files"].erase(parts_[1]);
  older["format"] = 2;
  for (const auto& manifest : {lacking, renamed, older}) {
    testing::rewrite(file("manifest.json"), manifest_text(sealed(manifest)));
    EXPECT_NE(complaint().find("a key is missing or of the wrong type"), std::string::npos) << complaint();
  }
}

class PartKillTest : public ::testing::Test {
 protected:
  // Checkpoints 1, 2, 3 and leftovers of a killed save, so that the next save has all kinds of work.
  PartKillTest() {
    for (std::int64_t step : {1, 2, 3}) Store(before_).save(testing::SampleState(step).snapshot(step));
    fs::create_directories(before_ / ".tmp-step-00000004-1");
    write_text(before_ / ".tmp-step-00000004-1" / "state-00001-of-00002.safetensors", "half");
  }
  // Part 0, including all its work after the save.
  static void save_first(const fs::path& folder, std::int64_t step, const std::string& attempt, AtPoint at) {
    const testing::SampleState state(step);
    Writer writer({.folder = folder,
                   .keep = 2,
                   .store = {.may_commit = {}, .at = std::move(at), .deadline = testing::kNever}});
    writer.save(testing::SamplePart(state, 0, 2).snapshot(step, attempt), Writer::Kind::kBest);
    writer.wait();
    const auto outcome = writer.take_outcome();
    EXPECT_FALSE(outcome->failure) << outcome->failure->message();
  }
  static testing::PartOutcome save_second(const fs::path& folder, std::int64_t step,
                                          const std::string& attempt) {
    return testing::save_part(folder, {.step = step, .value = step, .attempt = attempt}, 1);
  }
  static void save_both(const fs::path& folder, std::int64_t step, const std::string& attempt,
                        const AtPoint& at) {
    testing::PartOutcome second;
    std::jthread thread([&] { second = save_second(folder, step, attempt); });
    save_first(folder, step, attempt, at);
    thread.join();
    EXPECT_FALSE(second.code) << second.message;
  }
  std::vector<std::string> points_of(std::int64_t step) {
    std::vector<std::string> points;
    fs::copy(before_, scratch_.path() / "points", fs::copy_options::recursive);
    save_both(scratch_.path() / "points", step, "a",
              [&](const std::string& point) { points.push_back(point); });
    fs::remove_all(scratch_.path() / "points");
    return points;
  }
  static void expect_newest_or_previous_loads(const fs::path& folder, std::int64_t step,
                                              const std::string& point) {
    const auto loaded = Store(folder).load_latest(
        [&](const Entry&, const Error& error) { ADD_FAILURE() << point << ": " << error.message(); });
    ASSERT_TRUE(loaded) << point;
    EXPECT_TRUE(loaded->entry.step == step || loaded->entry.step == 3) << point;
    EXPECT_TRUE(testing::SampleState(loaded->entry.step).is_in(*loaded)) << point;
  }
  static bool has_come(const fs::path& seal) {
    const auto end = std::chrono::steady_clock::now() + testing::kNever;
    while (!fs::exists(seal) && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return fs::exists(seal);
  }
  // Kills part 0 at the point with this index; part 1 goes on until the next save ends it.
  void kill_at(const std::vector<std::string>& points, std::size_t index, std::int64_t step) {
    const auto place = [&](const std::string& point) {
      return static_cast<std::size_t>(std::find(points.begin(), points.end(), point) - points.begin());
    };
    const std::size_t folder_is_made = place("write state-00001-of-00002.safetensors");
    const std::string name = step == 3 ? "step-00000003" : "step-00000004";
    const fs::path folder = scratch_.path() / std::to_string(index);
    fs::copy(before_, folder, fs::copy_options::recursive);
    testing::ChildProcess second([&] {
      const std::optional<ErrorCode> code = save_second(folder, step, "a").code;
      return !code ? 0 : code == ErrorCode::kAborted ? 3 : 1;
    });
    testing::ChildProcess first([&] {
      std::size_t next = 0;
      save_first(folder, step, "a", [&](const std::string&) {
        if (next++ == index) raise(SIGKILL);
      });
      return 0;
    });
    EXPECT_TRUE(first.was_killed());
    if (index >= folder_is_made && index <= place("gather " + name)) {
      EXPECT_TRUE(has_come(folder / (".tmp-" + name + "-a") / "sealed-00002-of-00002"));
    }
    expect_newest_or_previous_loads(folder, step, points[index]);
    if (index < folder_is_made) second.kill();  // it would wait for the folder until its deadline
    save_both(folder, 5, "b", {});
    EXPECT_EQ(testing::count_temporaries(folder), 0u);
    EXPECT_EQ(Store(folder).list().back().step, 5);
    EXPECT_EQ(Store(folder).list().size(), 2u);
    if (index >= folder_is_made) {
      EXPECT_TRUE(second.ended_with(index > place("rename " + name) ? 0 : 3)) << second.wait();
    }
  }
  void kill_at_every_point(std::int64_t step) {
    const std::vector<std::string> points = points_of(step);
    EXPECT_GT(points.size(), 20u);
    for (std::size_t i = 0; i < points.size(); ++i) {
      SCOPED_TRACE(points[i]);
      kill_at(points, i, step);
    }
  }

  ScratchFolder scratch_;
  fs::path before_ = scratch_.path() / "before";
};

TEST_F(PartKillTest, Part0KilledAtAnyPointLeavesAWholeCheckpoint) { kill_at_every_point(4); }

TEST_F(PartKillTest, AndSoWhenItReplacesTheNewest) { kill_at_every_point(3); }

TEST_F(PartKillTest, AnotherPartKilledInTheMiddleIsNamedAndNothingIsLeft) {
  const AtPoint die = [](const std::string& point) {
    if (point == "sync state-00002-of-00002.safetensors") raise(SIGKILL);
  };
  testing::ChildProcess second([&] {
    testing::PartsToSave save{.step = 4, .value = 4};
    save.options = [&](int) {
      return Store::Options{.may_commit = {}, .at = die, .deadline = testing::kNever};
    };
    return testing::save_part(before_, save, 1).code ? 1 : 0;
  });
  testing::PartsToSave save{.step = 4, .value = 4};
  save.options = [](int) {
    return Store::Options{.may_commit = {}, .at = {}, .deadline = std::chrono::milliseconds(500)};
  };
  const testing::PartOutcome first = testing::save_part(before_, save, 0);
  EXPECT_TRUE(second.was_killed());
  EXPECT_EQ(first.code, ErrorCode::kTimeout);
  EXPECT_NE(first.message.find("part 2 of 2 was not written"), std::string::npos) << first.message;
  EXPECT_EQ(testing::count_temporaries(before_), 0u);
  EXPECT_EQ(Store(before_).list().size(), 3u);
}

}  // namespace
}  // namespace distbelief::checkpoint
