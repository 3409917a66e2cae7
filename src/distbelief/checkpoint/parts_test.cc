// Checkpoints of which several processes write a part each.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "distbelief/testing/file_size_limit.h"
#include "distbelief/testing/sample_parts.h"

namespace distbelief::checkpoint {
namespace {

namespace fs = std::filesystem;

class PartsTest : public ::testing::Test {
 protected:
  Loaded load(std::int64_t step) const {
    for (const Entry& entry : store_.list())
      if (entry.step == step) return store_.load(entry);
    throw std::runtime_error("no such step");
  }
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> result;
    for (const Entry& entry : store_.list()) result.push_back(entry.step);
    return result;
  }
  static std::set<std::string> names_in(const fs::path& folder) {
    std::set<std::string> names;
    for (const auto& found : fs::directory_iterator(folder)) names.insert(found.path().filename().string());
    return names;
  }
  static void expect_all_saved(const std::vector<testing::PartOutcome>& outcomes) {
    for (const testing::PartOutcome& outcome : outcomes) EXPECT_FALSE(outcome.code) << outcome.message;
  }
  void expect_only_step_1() const {
    EXPECT_EQ(names_in(folder_), std::set<std::string>{"step-00000001"});
    EXPECT_TRUE(testing::SampleState(1).is_in(load(1)));
  }
  // The save points of one of two parts.
  std::vector<std::string> points_of(int part) {
    std::vector<std::string> points;
    const AtPoint note = [&](const std::string& point) { points.push_back(point); };
    expect_all_saved(testing::save_parts(scratch_.path() / "points",
                                         {.step = 2, .value = 2, .options = [&](int p) {
                                            return Store::Options{.may_commit = {},
                                                                  .at = p == part ? note : AtPoint(),
                                                                  .deadline = testing::kNever};
                                          }}));
    fs::remove_all(scratch_.path() / "points");
    return points;
  }
  std::vector<testing::PartOutcome> save_throwing_at(int part, const std::string& wanted) {
    const AtPoint at = [wanted](const std::string& point) {
      if (point == wanted) throw std::runtime_error("thrown at " + point);
    };
    return testing::save_parts(folder_, {.step = 2, .value = 2, .options = [&](int p) {
                                           return Store::Options{.may_commit = {},
                                                                 .at = p == part ? at : AtPoint(),
                                                                 .deadline = testing::kNever};
                                         }});
  }

  ScratchFolder scratch_;
  fs::path folder_ = scratch_.path() / "checkpoints";
  Store store_{folder_};
};

TEST_F(PartsTest, HoldWhatACheckpointOfOnePartHolds) {
  const testing::SampleState state(7);
  store_.save(state.snapshot(1));
  for (int parts : {2, 3}) {
    expect_all_saved(testing::save_parts(folder_, {.step = parts, .value = 7, .parts = parts}));
    const Loaded loaded = load(parts);
    EXPECT_TRUE(state.is_in(loaded));
    EXPECT_EQ(loaded.weights_sha256(), load(1).weights_sha256());
    EXPECT_EQ(loaded.progress(), load(1).progress());
    EXPECT_EQ(loaded.files.size(), static_cast<std::size_t>(parts));
    EXPECT_EQ(loaded.files.back().metadata().at("model"), "mlp");
    EXPECT_TRUE(loaded.has("model.a"));
    EXPECT_FALSE(loaded.has("model.z"));
    EXPECT_THROW(loaded.tensor("model.z"), Error);
  }
  EXPECT_EQ(load(1).manifest.at("format"), 2);
  EXPECT_FALSE(load(1).manifest.contains("attempt"));
  EXPECT_EQ(load(3).manifest.at("format"), 3);
  EXPECT_EQ(names_in(load(1).entry.folder), (std::set<std::string>{"manifest.json", "state.safetensors"}));
  EXPECT_EQ(names_in(load(3).entry.folder),
            (std::set<std::string>{"manifest.json", "state-00001-of-00003.safetensors",
                                   "state-00002-of-00003.safetensors", "state-00003-of-00003.safetensors"}));
  EXPECT_EQ(testing::count_temporaries(folder_), 0u);
}

TEST_F(PartsTest, AreWrittenByProcesses) {
  const testing::PartsToSave save{.step = 2, .value = 9, .parts = 3};
  {
    testing::ChildProcess third([&] { return testing::save_part(folder_, save, 2).code ? 1 : 0; });
    testing::ChildProcess second([&] { return testing::save_part(folder_, save, 1).code ? 1 : 0; });
    testing::ChildProcess first([&] { return testing::save_part(folder_, save, 0).code ? 1 : 0; });
    for (testing::ChildProcess* process : {&first, &second, &third}) EXPECT_TRUE(process->ended_with(0));
  }
  const testing::SampleState state(9);
  EXPECT_TRUE(state.is_in(load(2)));
  EXPECT_EQ(load(2).weights_sha256(), sha256_by_name(state.views().first(testing::SampleState::kParameters)));
  EXPECT_EQ(testing::count_temporaries(folder_), 0u);
}

TEST_F(PartsTest, ReplaceACheckpointOfTheSameStepWhateverItsParts) {
  store_.save(testing::SampleState(1).snapshot(2));
  int attempts = 0;
  for (int parts : {2, 3, 2}) {
    const std::int64_t value = 10 + parts;
    expect_all_saved(testing::save_parts(
        folder_,
        {.step = 2, .value = value, .parts = parts, .attempt = "try-" + std::to_string(++attempts)}));
    EXPECT_TRUE(testing::SampleState(value).is_in(load(2)));
    EXPECT_EQ(names_in(folder_), std::set<std::string>{"step-00000002"});
  }
  // The existing checkpoint must not pass for the new one.
  for (const testing::PartOutcome& outcome : save_throwing_at(0, "rename step-00000002"))
    EXPECT_TRUE(outcome.code);
  EXPECT_TRUE(testing::SampleState(12).is_in(load(2)));
  store_.save(testing::SampleState(3).snapshot(2));
  EXPECT_TRUE(testing::SampleState(3).is_in(load(2)));
}

TEST_F(PartsTest, AreExportedToTheFileThatOnePartGives) {
  store_.save(testing::SampleState(4).snapshot(1));
  expect_all_saved(testing::save_parts(folder_, {.step = 2, .value = 4, .parts = 3}));
  for (std::int64_t step : {1, 2})
    export_weights(load(step), "model.", scratch_.path() / std::to_string(step), {{"format", "pt"}});
  EXPECT_EQ(read_text(scratch_.path() / "1"), read_text(scratch_.path() / "2"));
  const SafetensorsFile file(scratch_.path() / "2");
  EXPECT_EQ(file.tensors().size(), 5u);
  EXPECT_EQ(file.tensor("a").shape, (Shape{4, 24}));
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}}));
  EXPECT_THROW(export_weights(load(2), "nothing.", scratch_.path() / "3", {}), Error);
  EXPECT_FALSE(fs::exists(scratch_.path() / "3"));
}

TEST_F(PartsTest, AFailureOfAnotherPartAtAnyPointEndsAll) {
  store_.save(testing::SampleState(1).snapshot(1));
  for (const std::string& point : points_of(1)) {
    if (point.starts_with("begin")) continue;  // it has not come: a matter for the deadline
    const std::vector<testing::PartOutcome> outcomes = save_throwing_at(1, point);
    EXPECT_EQ(outcomes[0].code, ErrorCode::kAborted) << point;
    EXPECT_NE(outcomes[0].message.find("part 2 of 2 failed: thrown at " + point), std::string::npos)
        << outcomes[0].message;
    EXPECT_EQ(outcomes[1].message, "thrown at " + point);
    expect_only_step_1();
  }
}

TEST_F(PartsTest, AFailureOfPart0AtAnyPointIsToldToTheOthers) {
  store_.save(testing::SampleState(1).snapshot(1));
  for (const std::string& point : points_of(0)) {
    if (point.starts_with("begin") || point == "sync the name of step-00000002") continue;
    const std::vector<testing::PartOutcome> outcomes = save_throwing_at(0, point);
    EXPECT_EQ(outcomes[0].message, "thrown at " + point);
    EXPECT_EQ(outcomes[1].code, ErrorCode::kAborted) << point;
    EXPECT_NE(outcomes[1].message.find("part 1 of 2 failed: thrown at " + point), std::string::npos)
        << outcomes[1].message;
    expect_only_step_1();
  }
}

TEST_F(PartsTest, AFailureOfPart0AfterTheCheckpointHasItsNameConcernsItAlone) {
  const std::vector<testing::PartOutcome> outcomes = save_throwing_at(0, "sync the name of step-00000002");
  EXPECT_TRUE(outcomes[0].code);
  EXPECT_FALSE(outcomes[1].code) << outcomes[1].message;
  EXPECT_TRUE(testing::SampleState(2).is_in(load(2)));
}

TEST_F(PartsTest, AFullDiskOfOneEndsAllAtOnce) {
  store_.save(testing::SampleState(1).snapshot(1));
  const testing::PartsToSave save{.step = 2, .value = 2, .parts = 3};
  // First space for the reason, then for nothing.
  for (const auto& [room, reason] :
       {std::pair<rlim_t, const char*>{500, "File too large"}, {0, "not even room to say why"}}) {
    testing::ChildProcess second([&] {
      const testing::FileSizeLimit limit(room);
      return testing::save_part(folder_, save, 1).code == ErrorCode::kUnavailable ? 0 : 1;
    });
    const std::vector<testing::PartOutcome> outcomes = testing::save_parts(folder_, save, 1);
    EXPECT_TRUE(second.ended_with(0));
    for (int part : {0, 2}) {
      const testing::PartOutcome& outcome = outcomes[static_cast<std::size_t>(part)];
      EXPECT_EQ(outcome.code, ErrorCode::kAborted);
      EXPECT_NE(outcome.message.find("part 2 of 3 failed: "), std::string::npos) << outcome.message;
      EXPECT_NE(outcome.message.find(reason), std::string::npos) << outcome.message;
    }
    expect_only_step_1();
  }
}

TEST_F(PartsTest, APartThatNeverComesIsNamedAtTheDeadline) {
  store_.save(testing::SampleState(1).snapshot(1));
  testing::PartsToSave save{.step = 2, .value = 2, .parts = 3};
  save.options = [](int part) {
    return Store::Options{
        .may_commit = {}, .at = {}, .deadline = part == 0 ? std::chrono::milliseconds(500) : testing::kNever};
  };
  const std::vector<testing::PartOutcome> outcomes = testing::save_parts(folder_, save, 2);
  EXPECT_EQ(outcomes[0].code, ErrorCode::kTimeout);
  EXPECT_NE(outcomes[0].message.find("part 3 of 3 was not written to"), std::string::npos)
      << outcomes[0].message;
  EXPECT_NE(outcomes[0].message.find("within 0.5 s"), std::string::npos) << outcomes[0].message;
  EXPECT_EQ(outcomes[1].code, ErrorCode::kAborted);
  EXPECT_NE(outcomes[1].message.find("part 1 of 3 failed: part 3 of 3"), std::string::npos)
      << outcomes[1].message;
  expect_only_step_1();
}

TEST_F(PartsTest, AreNotSavedWithoutPart0) {
  testing::PartsToSave save{.step = 2, .value = 2, .parts = 2};
  save.options = [](int) {
    return Store::Options{.may_commit = {}, .at = {}, .deadline = std::chrono::milliseconds(50)};
  };
  const std::vector<testing::PartOutcome> outcomes = testing::save_parts(folder_, save, 0);
  EXPECT_EQ(outcomes[1].code, ErrorCode::kTimeout);
  EXPECT_NE(outcomes[1].message.find("part 1 of 2 did not make"), std::string::npos) << outcomes[1].message;
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(PartsTest, AreDiscardedWhenPart0MayNotCommit) {
  store_.save(testing::SampleState(1).snapshot(1));
  testing::PartsToSave save{.step = 2, .value = 2};
  int asked = 0;
  save.options = [&](int part) {
    Store::Options options{.may_commit = {}, .at = {}, .deadline = testing::kNever};
    if (part == 0) options.may_commit = [&] { return ++asked == 1; };
    return options;
  };
  const std::vector<testing::PartOutcome> outcomes = testing::save_parts(folder_, save);
  EXPECT_EQ(asked, 2);
  for (const testing::PartOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code, ErrorCode::kAborted);
    EXPECT_NE(outcome.message.find("another generation of workers has taken over"), std::string::npos)
        << outcome.message;
  }
  expect_only_step_1();
}

TEST_F(PartsTest, ATensorInTwoPartsIsRefused) {
  const testing::SampleState state(1);
  std::vector<std::string> messages(2);
  {
    std::vector<std::jthread> threads;
    for (int part : {0, 1}) {
      threads.emplace_back([&, part] {
        Snapshot snapshot = state.snapshot(1);
        snapshot.part = part;
        snapshot.parts = 2;
        snapshot.attempt = "a";
        try {
          Store(folder_, {.may_commit = {}, .at = {}, .deadline = testing::kNever}).save(snapshot);
        } catch (const Error& error) {
          messages[static_cast<std::size_t>(part)] = error.message();
        }
      });
    }
  }
  for (const std::string& message : messages)
    EXPECT_NE(message.find("tensor 'model.a' in more than one file"), std::string::npos) << message;
  EXPECT_TRUE(steps().empty());
}

TEST_F(PartsTest, NeedAnAttemptAndANumber) {
  Snapshot snapshot = testing::SampleState(1).snapshot(1);
  snapshot.tensors = {};
  snapshot.weights = 0;
  const auto expect_refused = [&](int part, int parts, const char* attempt) {
    snapshot.part = part;
    snapshot.parts = parts;
    snapshot.attempt = attempt;
    EXPECT_THROW(store_.save(snapshot), Error) << part << " " << parts << " " << attempt;
    EXPECT_FALSE(fs::exists(folder_));
  };
  expect_refused(0, 2, "");
  expect_refused(0, 2, "a/b");
  expect_refused(0, 1, "a b");
  expect_refused(2, 2, "a");
  expect_refused(-1, 2, "a");
  expect_refused(0, 100'000, "a");
}

}  // namespace
}  // namespace distbelief::checkpoint
