#include "distbelief/report/metrics.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <limits>
#include <nlohmann/json.hpp>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"

namespace distbelief::report {
namespace {

class MetricsLogTest : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "metrics.jsonl"; }
  std::string text() const { return read_text(path()); }
  ScratchFolder folder_;
};

TEST_F(MetricsLogTest, ALineIsInTheFileWhenAppendReturns) {
  MetricsLog log(path());
  log.append({{"step", 1}, {"loss", 0.5}});
  EXPECT_EQ(text(), "{\"loss\":0.5,\"step\":1}\n");
  log.append({{"step", 2}});
  EXPECT_EQ(text(), "{\"loss\":0.5,\"step\":1}\n{\"step\":2}\n");
}

TEST_F(MetricsLogTest, ContinuesAnExistingFile) {
  MetricsLog(path()).append({{"step", 1}});
  MetricsLog(path()).append({{"step", 2}});
  EXPECT_EQ(text(), "{\"step\":1}\n{\"step\":2}\n");
}

TEST_F(MetricsLogTest, TwoWritersDoNotOverwriteEachOther) {
  MetricsLog first(path()), second(path());
  first.append({{"from", 1}});
  second.append({{"from", 2}});
  first.append({{"from", 1}});
  EXPECT_EQ(text(), "{\"from\":1}\n{\"from\":2}\n{\"from\":1}\n");
}

TEST_F(MetricsLogTest, CutsOffATornLine) {
  std::ofstream(path()) << "{\"step\":1}\n{\"st";
  MetricsLog(path()).append({{"step", 3}});
  EXPECT_EQ(text(), "{\"step\":1}\n{\"step\":3}\n");
  std::ofstream(path()) << "{\"st";
  MetricsLog(path()).append({{"step", 4}});
  EXPECT_EQ(text(), "{\"step\":4}\n");
}

TEST_F(MetricsLogTest, LeavesATornLineAloneWhileAnotherWriterHasItsTurn) {
  std::ofstream(path()) << "{\"st";
  const int other = open(path().c_str(), O_RDWR);
  ASSERT_EQ(flock(other, LOCK_EX), 0);
  MetricsLog(path()).append({{"step", 3}});
  close(other);
  EXPECT_EQ(text(), "{\"st\n{\"step\":3}\n");
}

TEST_F(MetricsLogTest, WritesAnOddValueAsJsonAllTheSame) {
  MetricsLog log(path());
  log.append({{"loss", std::numeric_limits<double>::quiet_NaN()}, {"text", "two\nlines\xff"}});
  const std::string line = text();
  EXPECT_TRUE(nlohmann::json::parse(line).at("loss").is_null());
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
}

TEST_F(MetricsLogTest, NamesTheFileThatCannotBeOpened) {
  const auto absent = folder_.path() / "absent" / "metrics.jsonl";
  try {
    MetricsLog log(absent);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_NE(error.message().find(absent.string() + ": No such file"), std::string::npos) << error.message();
  }
}

TEST_F(MetricsLogTest, ReportsAFullDiskAndGoesOnWhenThereIsRoomAgain) {
  MetricsLog log(path());
  log.append({{"step", 1}});
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full{15, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &full);
  ErrorCode code = ErrorCode::kInternal;
  try {
    log.append({{"step", 2}});
  } catch (const Error& error) {
    code = error.code();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(code, ErrorCode::kUnavailable);
  EXPECT_EQ(text(), "{\"step\":1}\n") << "half a line was left";
  log.append({{"step", 3}});
  EXPECT_EQ(text(), "{\"step\":1}\n{\"step\":3}\n");
}

}  // namespace
}  // namespace distbelief::report
