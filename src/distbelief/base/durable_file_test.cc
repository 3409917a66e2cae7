#include "distbelief/base/durable_file.h"

#include <gtest/gtest.h>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"

namespace distbelief {
namespace {

using ::testing::IsSubstring;

TEST(DurableFile, AppearsWholeOrNotAtAll) {
  const ScratchFolder folder;
  const std::filesystem::path target = folder.path() / "a";
  write_text(target, "old");
  {
    DurableFile file(target);
    file.write("new", 3);
    EXPECT_EQ(read_text(target), "old") << "until it is committed";
    EXPECT_EQ(file.bytes(), 3U);
  }
  EXPECT_EQ(read_text(target), "old");
  EXPECT_EQ(folder.entries(), 1U) << "what was not committed is gone";
  DurableFile file(target);
  file.write("new", 3);
  EXPECT_EQ(file.commit().bytes, 3U);
  EXPECT_EQ(read_text(target), "new");
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(DurableFile, PiecesBecomeOneFile) {
  const ScratchFolder folder;
  const std::string_view pieces[] = {"one ", "", "two"};
  write_atomically(folder.path() / "a", pieces);
  EXPECT_EQ(read_text(folder.path() / "a"), "one two");
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(DurableFile, SaysWhatCannotBeWritten) {
  try {
    write_durably("/nowhere/at/all", "x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_PRED_FORMAT2(IsSubstring, "cannot write /nowhere/at/all: No such file or directory",
                        error.message());
  }
}

}  // namespace
}  // namespace distbelief
