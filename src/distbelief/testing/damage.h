#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "distbelief/base/scratch_folder.h"
#include "distbelief/checkpoint/store.h"
#include "distbelief/testing/sample_state.h"

namespace distbelief::testing {

inline std::string flipped(std::string bytes, std::uint64_t bit) {
  bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  return bytes;
}

// Removes the file first: some file systems flush a file that is truncated in place, which is slow a thousand
// times.
inline void rewrite(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::remove(path);
  write_text(path, bytes);
}

// Two checkpoints; tests damage the newer one, of step 2.
class DamageFixture : public ::testing::Test {
 protected:
  std::filesystem::path file(std::string_view name) const { return folder_ / "step-00000002" / name; }

  // The message of load() for the newer one; empty: no error.
  std::string complaint() const {
    try {
      store_.load(store_.list().back());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      return error.message();
    }
    return {};
  }

  void expect_older_one_loads(const std::string& what) const {
    int reports = 0;
    const auto loaded = store_.load_latest([&](const checkpoint::Entry&, const Error&) { ++reports; });
    ASSERT_TRUE(loaded) << what;
    EXPECT_EQ(loaded->entry.step, 1) << what;
    EXPECT_EQ(reports, 1) << what;
    EXPECT_TRUE(SampleState(1).is_in(*loaded)) << what;
  }

  ScratchFolder scratch_;
  std::filesystem::path folder_ = scratch_.path() / "checkpoints";
  checkpoint::Store store_{folder_};
};

}  // namespace distbelief::testing
