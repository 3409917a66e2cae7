#include "distbelief/server/update_log.h"

#include <gtest/gtest.h>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"

namespace distbelief::server {
namespace {

std::string refusal_of(const std::string& text) {
  const ScratchFolder scratch;
  write_text(scratch.path() / "log", text);
  try {
    read_log(scratch.path() / "log");
    return "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.message();
  }
}

TEST(UpdateLog, GivesBackWhatWasAppended) {
  const ScratchFolder scratch;
  const auto path = scratch.path() / "log";
  const UpdateRecord record{.slice = 3, .version = 1, .ticket = 9, .replica = 2, .base = 0, .lr = 0.1};
  {
    UpdateLog log(path);
    log.append_job(job_mark("secret"));
    log.append(record);
    log.append_evaluation(R"("loss":0.5)");
    log.append_begin(2, 5, 4);
    log.append_acknowledged(9, {1, 2});
    log.append_over();
  }
  write_text(path, read_text(path) + R"({"slice":3,"vers)");  // cut short
  using Kind = LogLine::Kind;
  EXPECT_EQ(read_log(path),
            (std::vector<LogLine>{{.kind = Kind::kJob, .mark = job_mark("secret")},
                                  {.update = record},
                                  {.kind = Kind::kBegin, .update = {.replica = 2}, .clock = 5, .slowest = 4},
                                  {.kind = Kind::kAcknowledged, .update = {.ticket = 9}, .versions = {1, 2}},
                                  {.kind = Kind::kOver}}));
  EXPECT_EQ(mark_of_log(path), job_mark("secret"));
  EXPECT_EQ(job_mark("secret").size(), 16U);
  EXPECT_EQ(job_mark("secret").find("secret"), std::string::npos);
}

TEST(UpdateLog, NamesTheLineThatIsNoRecord) {
  const std::string sound = "{\"left\":1}\n";
  EXPECT_EQ(refusal_of(sound), "accepted");
  for (const char* line : {"{", R"({"slice":1e300})", R"({"slice":1,"version":1.5})",
                           R"({"left":4294967296})", R"({"begin":0,"clock":"x"})", R"({"acknowledged":1})",
                           R"({"acknowledged":1,"versions":[1,true]})", R"({"slice":1,"lr":"fast"})"})
    EXPECT_NE(refusal_of(sound + line + "\n").find("line 2: no record"), std::string::npos) << line;
  EXPECT_NE(refusal_of(std::string(200'000, '[') + std::string(200'000, ']') + "\n").find("nested deeper"),
            std::string::npos);
}

}  // namespace
}  // namespace distbelief::server
