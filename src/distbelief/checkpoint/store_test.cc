#include "distbelief/checkpoint/store.h"

#include <gtest/gtest.h>

#include <cstring>

#include "distbelief/base/random.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/testing/file_size_limit.h"

namespace distbelief::checkpoint {
namespace {

class StoreTest : public ::testing::Test {
 protected:
  // Saves a checkpoint whose weights all have the value of its step.
  void save(std::int64_t step) { save(step, static_cast<float>(step)); }
  void save(std::int64_t step, float value) {
    const std::vector<float> weights(256, value);
    const TensorView view{
        "parameter/w", ElementType::kFloat32, {16, 16}, reinterpret_cast<const std::byte*>(weights.data())};
    store_.save({.step = step,
                 .progress = {{"epoch", step / 10}, {"loss", 0.1}},
                 .tensors = {&view, 1},
                 .metadata = {{"model", "mlp"}},
                 .weights = 1});
  }
  float first_weight(const Loaded& loaded) const {
    float value;
    std::memcpy(&value, loaded.tensor("parameter/w").data, sizeof value);
    return value;
  }
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> result;
    for (const Entry& entry : store_.list()) result.push_back(entry.step);
    return result;
  }
  Entry entry(std::int64_t step) const {
    for (const Entry& found : store_.list()) {
      if (found.step == step) return found;
    }
    throw std::runtime_error("no such step");
  }
  std::size_t temporaries() const {
    std::size_t count = 0;
    for (const auto& found : std::filesystem::recursive_directory_iterator(folder())) {
      count += found.path().filename().string().starts_with(".tmp-");
    }
    return count;
  }
  std::filesystem::path folder() const { return scratch_.path() / "checkpoints"; }
  std::filesystem::path file(std::int64_t step, const char* name) const { return entry(step).folder / name; }

  std::string load_error(std::int64_t step) const {
    try {
      store_.load(entry(step));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      return error.message();
    }
    return {};
  }

  ScratchFolder scratch_;
  Store store_{scratch_.path() / "checkpoints"};
};

TEST_F(StoreTest, GivesBackWhatWasSaved) {
  save(123);
  const Loaded loaded = store_.load(entry(123));
  EXPECT_EQ(loaded.entry.folder, folder() / "step-00000123");
  EXPECT_EQ(loaded.progress(), (nlohmann::json{{"epoch", 12}, {"loss", 0.1}}));
  EXPECT_EQ(loaded.weights_sha256(), sha256_by_name({&loaded.tensor("parameter/w"), 1}));
  EXPECT_EQ(loaded.files.front().metadata().at("model"), "mlp");
  EXPECT_EQ(loaded.tensor("parameter/w").shape, (Shape{16, 16}));
  EXPECT_EQ(first_weight(loaded), 123.0f);
  EXPECT_EQ(temporaries(), 0u);
}

TEST_F(StoreTest, IsEmptyBeforeTheFirstSave) {
  EXPECT_TRUE(store_.list().empty());
  EXPECT_FALSE(store_.best());
  EXPECT_FALSE(store_.load_latest([](const Entry&, const Error&) { FAIL(); }));
  EXPECT_NO_THROW(store_.prune(1));
}

TEST_F(StoreTest, ListsWholeCheckpointsInTheOrderOfSteps) {
  for (std::int64_t step : {20, 3, 100'000'000, 7}) save(step);
  std::filesystem::create_directory(folder() / "step-00000009");
  std::filesystem::create_directory(folder() / "step-9");
  std::filesystem::create_directory(folder() / "step-0000000x");
  std::filesystem::remove(file(7, "state.safetensors"));
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{3, 20, 100'000'000}));
}

TEST_F(StoreTest, ReplacesACheckpointOfTheSameStep) {
  save(5, 1.0f);
  save(5, 2.0f);
  EXPECT_EQ(steps(), std::vector<std::int64_t>{5});
  EXPECT_EQ(first_weight(store_.load(entry(5))), 2.0f);
  EXPECT_EQ(temporaries(), 0u);
}

TEST_F(StoreTest, NoticesRandomFlippedBitsInTheState) {
  save(1);
  const std::string whole = read_text(file(1, "state.safetensors"));
  SplitMix64 random(42);
  for (int i = 0; i < 50; ++i) {
    std::string damaged = whole;
    const std::uint64_t bit = random.below(whole.size() * 8);
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    write_text(file(1, "state.safetensors"), damaged);
    EXPECT_NE(load_error(1).find("state.safetensors is damaged: the checksum of"), std::string::npos)
        << "bit " << bit;
  }
  write_text(file(1, "state.safetensors"), whole);
  EXPECT_EQ(load_error(1), "");
}

TEST_F(StoreTest, NoticesFlippedBitsInTheManifest) {
  save(1);
  const std::string whole = read_text(file(1, "manifest.json"));
  for (std::size_t byte = 0; byte < whole.size(); ++byte) {
    std::string damaged = whole;
    damaged[byte] ^= 1;
    write_text(file(1, "manifest.json"), damaged);
    EXPECT_NE(load_error(1).find("manifest.json"), std::string::npos) << "byte " << byte;
  }
}

TEST_F(StoreTest, NoticesTruncation) {
  save(1);
  const std::string state = read_text(file(1, "state.safetensors"));
  for (std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{8}, state.size() - 1}) {
    write_text(file(1, "state.safetensors"), state.substr(0, size));
    EXPECT_NE(load_error(1).find("state.safetensors is damaged: it has"), std::string::npos) << size;
  }
  write_text(file(1, "manifest.json"), "");
  EXPECT_NE(load_error(1).find("manifest.json is damaged"), std::string::npos);
}

TEST_F(StoreTest, RefusesAnotherFormatAndARenamedFolder) {
  save(1);
  std::filesystem::copy(folder() / "step-00000001", folder() / "step-00000002");
  EXPECT_NE(load_error(2).find("its folder of step 2"), std::string::npos);
  auto manifest = nlohmann::json::parse(read_text(file(1, "manifest.json")));
  manifest["format"] = 4;
  write_text(file(1, "manifest.json"), manifest.dump());
  EXPECT_NE(load_error(1).find("has format 4, this program reads formats 1 to 3"), std::string::npos);
}

TEST_F(StoreTest, FallsBackToTheNewestWholeCheckpointAndReportsTheOthers) {
  for (std::int64_t step : {1, 2, 3}) save(step);
  write_text(file(3, "manifest.json"), "{}");
  std::string state = read_text(file(2, "state.safetensors"));
  state.back() ^= 1;
  write_text(file(2, "state.safetensors"), state);
  std::vector<std::int64_t> reported;
  const auto loaded =
      store_.load_latest([&](const Entry& entry, const Error&) { reported.push_back(entry.step); });
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->entry.step, 1);
  EXPECT_EQ(first_weight(*loaded), 1.0f);
  EXPECT_EQ(reported, (std::vector<std::int64_t>{3, 2}));
}

TEST_F(StoreTest, GivesNothingWhenAllAreDamaged) {
  save(1);
  write_text(file(1, "manifest.json"), "[]");
  int reports = 0;
  EXPECT_FALSE(store_.load_latest([&](const Entry&, const Error&) { ++reports; }));
  EXPECT_EQ(reports, 1);
}

TEST_F(StoreTest, RemembersTheBestAcrossObjects) {
  save(1);
  save(2);
  store_.mark_best(entry(2));
  store_.mark_best(entry(1));
  const auto best = Store(folder()).best();
  ASSERT_TRUE(best);
  EXPECT_EQ(best->step, 1);
  EXPECT_EQ(first_weight(store_.load(*best)), 1.0f);
}

TEST_F(StoreTest, HasNoBestWhenItIsGoneAndRefusesToMarkWhatIsNotThere) {
  save(1);
  const Entry gone = entry(1);
  store_.mark_best(gone);
  std::filesystem::remove_all(gone.folder);
  EXPECT_FALSE(store_.best());
  EXPECT_THROW(store_.mark_best(gone), Error);
}

TEST_F(StoreTest, SaysThatTheRecordOfTheBestIsDamaged) {
  save(1);
  write_text(folder() / "best.json", "{\"step\":");
  EXPECT_THROW(store_.best(), Error);
}

TEST_F(StoreTest, PruneKeepsTheLastOnesAndTheBest) {
  for (std::int64_t step : {1, 2, 3, 4, 5}) save(step);
  store_.mark_best(entry(2));
  std::filesystem::create_directories(folder() / ".tmp-step-00000006-1" / "inner");
  store_.prune(2);
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{2, 4, 5}));
  EXPECT_EQ(temporaries(), 0u);
  store_.prune(9);
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{2, 4, 5}));
  store_.prune(0);
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{2}));
}

TEST_F(StoreTest, AReaderKeepsWhatItLoadedWhenItIsPruned) {
  save(1);
  save(2);
  const Loaded loaded = store_.load(entry(1));
  store_.prune(1);
  EXPECT_EQ(first_weight(loaded), 1.0f);
}

TEST_F(StoreTest, AFullDiskLeavesTheOldCheckpointsAndNothingElse) {
  save(1);
  // First space for a part of the state, then for nothing.
  for (rlim_t room : {rlim_t{500}, rlim_t{0}}) {
    std::string message;
    {
      const testing::FileSizeLimit limit(room);
      try {
        save(2);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
        message = error.message();
      }
    }
    EXPECT_NE(message.find("the checkpoint of step 2 was not saved"), std::string::npos) << message;
    EXPECT_NE(message.find("File too large"), std::string::npos) << message;
    EXPECT_EQ(steps(), std::vector<std::int64_t>{1});
    EXPECT_EQ(temporaries(), 0u);
    EXPECT_EQ(load_error(1), "");
  }
}

TEST_F(StoreTest, NamesAPlaceWhereNoFolderCanBe) {
  write_text(scratch_.path() / "file", "");
  Store store(scratch_.path() / "file" / "checkpoints");
  try {
    store.save({});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_NE(error.message().find("checkpoints: Not a directory"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace distbelief::checkpoint
