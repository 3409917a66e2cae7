#include "distbelief/server/shard/update_log.h"

#include <gtest/gtest.h>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"
#include "distbelief/testing/file_size_limit.h"

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
  UpdateRecord of_two = record;
  of_two.of = {0, 2};
  RowsRecord rows{.table = 1, .ticket = 9, .replica = 2, .parts = ~std::uint64_t{0}};
  rows.rows.push_back({.part = 63});
  for (const std::uint64_t id : {~std::uint64_t{0}, std::uint64_t{0}}) rows.rows.back().add(id);
  {
    UpdateLog log(path);
    log.append_job(job_mark("secret"));
    log.append(record);
    log.append(of_two);
    log.append_command(3, 2, 7);
    log.append_evaluation(R"("evaluation":4,"loss":0.5)");
    log.append_evaluation(R"("loss":0.5)");
    log.append_begin(2, 5, 4, 9);
    log.append_acknowledged(9, {1, 2});
    log.append_late(8, {3});
    log.append_fetched(std::vector<std::int64_t>{4});  // for a replay
    log.append_table(1, "wo\"rds");
    log.append_rows(rows);
    log.append_rows_given(1, 7, 4, {6, 8});
    log.note_rows_forgotten(1, 7);
    log.note_over();
  }
  write_text(path, read_text(path) + R"({"slice":3,"vers)");  // cut short
  using Kind = LogLine::Kind;
  EXPECT_EQ(read_log(path),
            (std::vector<LogLine>{
                {.kind = Kind::kJob, .mark = job_mark("secret")},
                {.update = record},
                {.update = of_two},
                {.kind = Kind::kCommand, .update = {.slice = 3, .version = 2}, .number = 7},
                {.kind = Kind::kEvaluation, .number = 4},
                {.kind = Kind::kBegin, .update = {.ticket = 9, .replica = 2}, .clock = 5, .slowest = 4},
                {.kind = Kind::kAcknowledged, .update = {.ticket = 9}, .versions = {1, 2}},
                {.kind = Kind::kLate, .update = {.ticket = 8}, .versions = {3}},
                {.kind = Kind::kTable, .rows = {.table = 1}},
                {.kind = Kind::kRows, .rows = rows},
                {.kind = Kind::kRowsGiven,
                 .rows = {.table = 1, .parts = std::uint64_t{1} << 7},
                 .below = 4,
                 .ranges = {6, 8}},
                {.kind = Kind::kRowsForgotten, .rows = {.table = 1, .parts = std::uint64_t{1} << 7}},
                {.kind = Kind::kOver}}));
  EXPECT_EQ(mark_of_log(path), job_mark("secret"));
  EXPECT_EQ(job_mark("secret").size(), 16U);
  EXPECT_EQ(job_mark("secret").find("secret"), std::string::npos);
}

TEST(UpdateLog, WhatCannotBeWrittenLeavesNoHalfOfALine) {
  const ScratchFolder scratch;
  const auto path = scratch.path() / "log";
  const UpdateRecord record{.slice = 3, .version = 1, .ticket = 9, .replica = 2, .base = 0, .lr = 0.1};
  UpdateLog log(path);
  log.append(record);
  {
    const testing::FileSizeLimit full(std::filesystem::file_size(path) + 10);
    EXPECT_THROW(log.append(record), Error);
    EXPECT_NO_THROW(log.note_left(2)) << "nobody is refused for that";
  }
  log.append(record);
  EXPECT_EQ(read_log(path), (std::vector<LogLine>{{.update = record}, {.update = record}}));
}

TEST(UpdateLog, TheChecksumOfRowsDoesNotDependOnTheirOrderAndIsNoNegativeNumber) {
  RowsRecord::Part one, other, third;
  for (std::uint64_t id = 1; id <= 100; ++id) one.add(id), other.add(101 - id), third.add(id + 1);
  EXPECT_EQ(one, other);
  EXPECT_NE(one, third);
  EXPECT_GE(one.ids, 0);
}

TEST(UpdateLog, NamesTheLineThatIsNoRecord) {
  const std::string sound = "{\"left\":1}\n";
  EXPECT_EQ(refusal_of(sound), "accepted");
  for (const char* line :
       {"{", R"({"slice":1e300})", R"({"slice":1,"version":1.5})", R"({"left":4294967296})",
        R"({"begin":0,"clock":"x"})", R"({"acknowledged":1})", R"({"acknowledged":1,"versions":[1,true]})",
        R"({"slice":1,"lr":"fast"})", R"({"rows":0,"ticket":1,"replica":0,"parts":"xy","of":[]})",
        R"({"rows":0})", R"({"rows":0,"ticket":1,"replica":0,"parts":"1","of":[64,1,1]})",
        R"({"rows_given":0,"part":-1,"below":0,"ranges":[]})"})
    EXPECT_NE(refusal_of(sound + line + "\n").find("line 2: no record"), std::string::npos) << line;
  EXPECT_NE(refusal_of(std::string(200'000, '[') + std::string(200'000, ']') + "\n").find("nested deeper"),
            std::string::npos);
}

}  // namespace
}  // namespace distbelief::server
