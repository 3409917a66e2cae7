#include "distbelief/cli/new_run_folder.h"

#include <gtest/gtest.h>

#include <set>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"

namespace distbelief::cli {
namespace {

namespace fs = std::filesystem;

class NewRunFolder : public ::testing::Test {
 protected:
  NewRunFolder() { fs::current_path(scratch_.path()); }
  ~NewRunFolder() override { fs::current_path(before_); }

  static void write_job(const fs::path& folder) { write_text(folder / "job.toml", "[train]\n"); }
  static void fail(const fs::path& folder) {
    write_text(folder / "half", "of it");
    throw Error(ErrorCode::kUnavailable, "no room");
  }

  RunDirMaker maker(const std::function<void(const fs::path&)>& fill) {
    return {.fill = fill, .judge = [this](const fs::path&) { return former_; }};
  }
  std::string refusal() {
    try {
      make_run_dir("mine", "mlp-mnist", maker(write_job));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  FormerRun former_ = FormerRun::kGoesOn;
  fs::path before_ = fs::current_path();
  ScratchFolder scratch_;
};

TEST_F(NewRunFolder, HasANameOfItsOwnAlsoInTheSameSecond) {
  std::set<fs::path> made;
  for (int i = 0; i < 4; ++i) made.insert(make_run_dir("", "mlp-mnist", maker(write_job)));
  EXPECT_EQ(made.size(), 4);
  for (const fs::path& folder : made) EXPECT_TRUE(fs::exists(folder / "job.toml")) << folder;
}

TEST_F(NewRunFolder, GoesAgainWhenItCannotBeFilled) {
  EXPECT_THROW(make_run_dir("", "mlp-mnist", maker(fail)), Error);
  EXPECT_THROW(make_run_dir("a/b/", "mlp-mnist", maker(fail)), Error);
  EXPECT_EQ(scratch_.entries(), 0);
  EXPECT_EQ(make_run_dir("a/b/", "mlp-mnist", maker(write_job)), fs::path("a/b"));
}

TEST_F(NewRunFolder, LeavesAFolderThatWasThere) {
  fs::create_directory("mine");
  write_text("mine/notes", "keep");
  EXPECT_THROW(make_run_dir("mine", "mlp-mnist", maker(fail)), Error);
  EXPECT_TRUE(fs::exists("mine/notes"));
  EXPECT_FALSE(fs::exists("mine/logs"));
}

TEST_F(NewRunFolder, RefusesOneThatHoldsARunAndOneThatCannotBeMade) {
  make_run_dir("mine", "mlp-mnist", maker(write_job));
  EXPECT_THROW(make_run_dir("mine", "mlp-mnist", maker(write_job)), Error);
  write_text("file", "");
  EXPECT_THROW(make_run_dir("file", "mlp-mnist", maker(write_job)), Error);
  EXPECT_THROW(make_run_dir("file/run", "mlp-mnist", maker(write_job)), Error);
}

TEST_F(NewRunFolder, RefusesOneWhoseFilesItWouldWriteOver) {
  for (const char* name : {"model.safetensors", "job.toml", "launch.json", "predictions.json"}) {
    fs::create_directory("mine");
    write_text(fs::path("mine") / name, "mine");
    EXPECT_NE(refusal().find(name), std::string::npos) << refusal();
    EXPECT_EQ(read_text(fs::path("mine") / name), "mine");
    fs::remove_all("mine");
  }
}

TEST_F(NewRunFolder, NamesResumeWhereItCanGoOn) {
  make_run_dir("mine", "mlp-mnist", maker(write_job));
  EXPECT_NE(refusal().find("distbelief resume mine"), std::string::npos) << refusal();
  former_ = FormerRun::kNoSave;
  EXPECT_EQ(refusal().find("distbelief resume"), std::string::npos) << refusal();
  EXPECT_NE(refusal().find("saved nothing to go on from"), std::string::npos) << refusal();
}

TEST_F(NewRunFolder, IsUsedAgainWhenItsRunCameToNothing) {
  make_run_dir("mine", "mlp-mnist", maker(write_job));
  write_text("mine/events.jsonl", "{}\n");
  write_text("mine/logs/worker-0.log", "");
  write_text("mine/notes", "keep");
  former_ = FormerRun::kNothing;
  EXPECT_EQ(refusal(), "");
  EXPECT_TRUE(fs::exists("mine/job.toml"));
  EXPECT_FALSE(fs::exists("mine/events.jsonl"));
  EXPECT_FALSE(fs::exists("mine/logs/worker-0.log"));
  EXPECT_TRUE(fs::exists("mine/notes"));
}

}  // namespace
}  // namespace distbelief::cli
