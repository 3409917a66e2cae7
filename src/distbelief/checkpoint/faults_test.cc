// Faults of checkpoints on a disk: damage, and the end of the process at any moment of a save.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "distbelief/base/random.h"
#include "distbelief/checkpoint/manifest.h"
#include "distbelief/checkpoint/writer.h"
#include "distbelief/testing/damage.h"
#include "distbelief/testing/sample_state.h"

namespace distbelief::checkpoint {
namespace {

namespace fs = std::filesystem;

void save_with(const fs::path& folder, std::int64_t step, AtPoint at) {
  const testing::SampleState state(step);
  Writer writer({.folder = folder, .keep = 2, .store = {.may_commit = {}, .at = std::move(at)}});
  writer.save(state.snapshot(step), Writer::Kind::kBest);
  writer.wait();
  const auto outcome = writer.take_outcome();
  if (outcome && outcome->failure) throw *outcome->failure;
}

class DamageTest : public testing::DamageFixture {
 protected:
  DamageTest() {
    for (std::int64_t step : {1, 2}) save_with(folder_, step, {});
  }
  // The name of the tensor, or of the header, that contains a byte of the state.
  static std::string part_at(const SafetensorsFile& state, std::uint64_t offset, std::uint64_t file_bytes) {
    std::uint64_t data_bytes = 0;
    for (const TensorView& view : state.tensors()) data_bytes += view.byte_count();
    const std::uint64_t header_bytes = file_bytes - data_bytes;
    if (offset < header_bytes) return "its header";
    const std::byte* first = state.tensors()[0].data;
    for (const TensorView& view : state.tensors()) first = std::min(first, view.data);
    for (const TensorView& view : state.tensors()) {
      const auto begin = header_bytes + static_cast<std::uint64_t>(view.data - first);
      if (offset >= begin && offset < begin + view.byte_count()) return "tensor '" + view.name + "'";
    }
    return "no part";
  }
};

TEST_F(DamageTest, EachOfAThousandFlippedBitsAndTruncationsIsNoticed) {
  const std::vector<fs::path> files{file("state.safetensors"), file("manifest.json"), folder_ / "best.json"};
  SplitMix64 random(20'260'101);
  int noticed = 0;
  for (int i = 0; i < 1'000; ++i) {
    const fs::path& path = files[random.below(5) * files.size() / 5];
    const std::string whole = read_text(path);
    const std::uint64_t bit = random.below(whole.size() * 8);
    const bool cut = random.below(3) == 0;
    testing::rewrite(path, cut ? whole.substr(0, bit / 8) : testing::flipped(whole, bit));
    const std::string what =
        path.filename().string() + (cut ? " cut at bit " : " flipped bit ") + std::to_string(bit);
    if (path == files[2]) {
      try {
        store_.best();
        ADD_FAILURE() << what;
      } catch (const Error& error) {
        noticed += error.code() == ErrorCode::kBadInput;
      }
    } else {
      noticed += complaint().find(path.string()) != std::string::npos;
      expect_older_one_loads(what);
    }
    EXPECT_EQ(noticed, i + 1) << what;
    testing::rewrite(path, whole);
  }
  EXPECT_EQ(noticed, 1'000);
  EXPECT_EQ(complaint(), "");
  EXPECT_EQ(store_.best()->step, 2);
}

TEST_F(DamageTest, NamesTheTensorOfEveryByteOfTheState) {
  const std::string whole = read_text(file("state.safetensors"));
  for (std::uint64_t byte = 0; byte < whole.size(); ++byte) {
    testing::rewrite(file("state.safetensors"), whole);
    const std::string part = part_at(SafetensorsFile(file("state.safetensors")), byte, whole.size());
    testing::rewrite(file("state.safetensors"), testing::flipped(whole, byte * 8 + byte % 8));
    EXPECT_NE(complaint().find("state.safetensors is damaged: the checksum of " + part), std::string::npos)
        << complaint();
    testing::rewrite(file("state.safetensors"), whole.substr(0, byte));
    EXPECT_NE(complaint().find("; " + part), std::string::npos) << complaint();
  }
}

TEST_F(DamageTest, NoticesAManifestCutAtAnyByte) {
  const std::string whole = read_text(file("manifest.json"));
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    testing::rewrite(file("manifest.json"), whole.substr(0, bytes));
    EXPECT_NE(complaint().find("manifest.json is damaged"), std::string::npos) << bytes;
  }
}

TEST_F(DamageTest, RefusesAManifestThatIsNestedTooDeeply) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  testing::rewrite(file("manifest.json"), deep);
  EXPECT_NE(complaint().find("manifest.json is damaged"), std::string::npos);
  testing::rewrite(file("manifest.json"), R"({"format": 2, "progress": )" + deep + "}");
  EXPECT_NE(complaint().find("manifest.json is damaged"), std::string::npos);
  testing::rewrite(folder_ / "best.json", R"({"step": )" + deep + "}\n");
  EXPECT_THROW(store_.best(), Error);
}

TEST_F(DamageTest, CountsTheOtherPartsThatAreDamagedToo) {
  std::string bytes = read_text(file("state.safetensors"));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(~bytes[i]);
  testing::rewrite(file("state.safetensors"), bytes);
  EXPECT_NE(complaint().find("its header (offset 0, "), std::string::npos) << complaint();
  EXPECT_NE(complaint().find("and that of 6 other parts"), std::string::npos) << complaint();
}

TEST_F(DamageTest, ReadsFormat1WhichHasNoChecksumsOfParts) {
  auto manifest = nlohmann::json::parse(read_text(file("manifest.json")));
  auto& state = manifest["files"]["state.safetensors"];
  state.erase("header");
  state.erase("tensors");
  manifest["format"] = 1;
  testing::rewrite(file("manifest.json"), manifest_text(sealed(manifest)));
  EXPECT_EQ(complaint(), "");
  state["header"] = 3;
  testing::rewrite(file("manifest.json"), manifest_text(sealed(manifest)));
  EXPECT_NE(complaint().find("a key is missing or of the wrong type"), std::string::npos);
  state.erase("header");
  testing::rewrite(file("manifest.json"), manifest_text(sealed(manifest)));
  const std::string whole = read_text(file("state.safetensors"));
  testing::rewrite(file("state.safetensors"), testing::flipped(whole, 8 * whole.size() - 1));
  EXPECT_NE(complaint().find("state.safetensors is damaged: its checksum is"), std::string::npos);
  testing::rewrite(file("state.safetensors"), whole.substr(1));
  EXPECT_NE(complaint().find("state.safetensors is damaged: it has"), std::string::npos);
}

TEST_F(DamageTest, ReadsARecordOfTheBestWithoutAChecksum) {
  testing::rewrite(folder_ / "best.json", "{\"step\":1}\n");
  EXPECT_EQ(store_.best()->step, 1);
}

// A process that is killed at the save point with this index.
class KilledSave {
 public:
  KilledSave(const fs::path& folder, std::int64_t step, std::size_t index) {
    const pid_t child = fork();
    if (child == 0) save_until(folder, step, index);
    if (child > 0) waitpid(child, &status_, 0);
  }
  bool was_killed() const { return WIFSIGNALED(status_) && WTERMSIG(status_) == SIGKILL; }

 private:
  [[noreturn]] static void save_until(const fs::path& folder, std::int64_t step, std::size_t index) {
    alarm(60);  // so that waiting for it ends
    std::size_t next = 0;
    try {
      save_with(folder, step, [&](const std::string& point) {
        if (next++ == index) die(folder, point);
      });
    } catch (const Error&) {
      _exit(1);
    }
    _exit(0);
  }
  // To die in the middle of removing a folder, first removes one of its files.
  static void die(const fs::path& folder, const std::string& point) {
    constexpr std::string_view kRemove = "remove ";
    if (point.starts_with(kRemove)) fs::remove(folder / point.substr(kRemove.size()) / kManifestName);
    raise(SIGKILL);
  }
  int status_ = 0;
};

class KillTest : public ::testing::Test {
 protected:
  // Checkpoints 1, 2, 3 and leftovers of a killed save, so that the next save has all kinds of work.
  KillTest() {
    for (std::int64_t step : {1, 2, 3}) Store(before_).save(testing::SampleState(step).snapshot(step));
    fs::create_directories(before_ / ".tmp-step-00000004-1");
    write_text(before_ / ".tmp-step-00000004-1" / "state.safetensors", "half");
  }
  std::vector<std::string> points_of(std::int64_t step) {
    std::vector<std::string> points;
    fs::copy(before_, scratch_.path() / "points", fs::copy_options::recursive);
    save_with(scratch_.path() / "points", step, [&](const std::string& point) { points.push_back(point); });
    fs::remove_all(scratch_.path() / "points");
    return points;
  }
  void expect_newest_or_previous_loads(const fs::path& folder, std::int64_t step, const std::string& point) {
    const auto loaded = Store(folder).load_latest(
        [&](const Entry&, const Error& error) { ADD_FAILURE() << point << ": " << error.message(); });
    ASSERT_TRUE(loaded) << point;
    EXPECT_TRUE(loaded->entry.step == step || loaded->entry.step == 3) << point;
    EXPECT_TRUE(testing::SampleState(loaded->entry.step).is_in(*loaded)) << point;
    EXPECT_NO_THROW(Store(folder).best()) << point;
  }
  void kill_at_every_point(std::int64_t step) {
    const std::vector<std::string> points = points_of(step);
    for (std::size_t i = 0; i < points.size(); ++i) {
      const fs::path folder = scratch_.path() / std::to_string(i);
      fs::copy(before_, folder, fs::copy_options::recursive);
      EXPECT_TRUE(KilledSave(folder, step, i).was_killed()) << points[i];
      expect_newest_or_previous_loads(folder, step, points[i]);
      save_with(folder, 5, {});
      EXPECT_EQ(testing::count_temporaries(folder), 0u) << points[i];
      EXPECT_EQ(Store(folder).list().back().step, 5) << points[i];
      EXPECT_EQ(Store(folder).list().size(), 2u) << points[i];
    }
  }

  ScratchFolder scratch_;
  fs::path before_ = scratch_.path() / "before";
};

TEST_F(KillTest, EveryKindOfWorkHasAPoint) {
  const std::vector<std::string> points = points_of(4);
  for (const char* wanted :
       {"begin step-00000004", "remove .tmp-step-00000004-1", "write state.safetensors",
        "sync state.safetensors", "rename state.safetensors", "sync the name of state.safetensors",
        "write manifest.json", "sync manifest.json", "rename manifest.json", "sync the name of manifest.json",
        "rename step-00000004", "sync the name of step-00000004", "write best.json", "sync best.json",
        "rename best.json", "retire step-00000001", "retire step-00000002",
        "remove .tmp-pruned-step-00000001"})
    EXPECT_NE(std::find(points.begin(), points.end(), wanted), points.end()) << wanted;
}

TEST_F(KillTest, AProcessKilledAtAnyPointOfASaveLeavesAWholeCheckpoint) { kill_at_every_point(4); }

TEST_F(KillTest, AndSoWhenItReplacesTheNewest) { kill_at_every_point(3); }

TEST_F(KillTest, WhatAKilledSaveLeftIsGoneBeforeTheNextOneNeedsRoom) {
  bool is_there = true;
  save_with(before_, 4, [&](const std::string& point) {
    if (point == "write state.safetensors") is_there = fs::exists(before_ / ".tmp-step-00000004-1");
  });
  EXPECT_FALSE(is_there);
}

}  // namespace
}  // namespace distbelief::checkpoint
