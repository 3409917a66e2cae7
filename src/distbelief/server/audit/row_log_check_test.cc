#include "distbelief/server/audit/row_log_check.h"

#include <gtest/gtest.h>

#include <functional>

namespace distbelief::server {
namespace {

using LineKind = LogLine::Kind;
constexpr std::uint64_t kAllParts = ~std::uint64_t{0};

LogLine table_line(std::int32_t number = 0) { return {.kind = LineKind::kTable, .rows = {.table = number}}; }
LogLine rows_line(std::int64_t ticket, std::uint64_t parts = kAllParts) {
  return {.kind = LineKind::kRows,
          .rows = {.ticket = ticket, .parts = parts, .rows = {{.part = 63, .rows = 2, .ids = 5 + ticket}}}};
}
LogLine given_line(std::int64_t below, std::vector<std::int64_t> ranges, std::uint64_t parts) {
  return {
      .kind = LineKind::kRowsGiven, .rows = {.parts = parts}, .below = below, .ranges = std::move(ranges)};
}
LogLine forgotten_line(std::uint64_t parts) {
  return {.kind = LineKind::kRowsForgotten, .rows = {.parts = parts}};
}
LogLine told_line(std::int64_t ticket) {
  return {.kind = LineKind::kAcknowledged, .update = {.ticket = ticket}};
}
// One line for each part, as servers log the parts that they were given.
std::vector<LogLine> lines_of_parts(const std::function<LogLine(std::uint64_t)>& line) {
  std::vector<LogLine> lines;
  for (int part = 0; part < 64; ++part) lines.push_back(line(std::uint64_t{1} << part));
  return lines;
}

// A primary and its backup, which gets messages in any order.
RunLogs sound_rows() {
  return {.servers = {{1, {table_line(), rows_line(0), rows_line(1), rows_line(2)}},
                      {2, {table_line(), rows_line(0), rows_line(2), rows_line(1)}}},
          .replicas = {{0, {told_line(0), told_line(1)}}, {1, {told_line(2)}}}};
}

void expect_row_flaw(const RunLogs& logs, const LogPromise& promise, const std::string& words) {
  try {
    check_rows(logs, promise);
    ADD_FAILURE() << "nothing was found: " << words;
  } catch (const LogFlaw& flaw) {
    EXPECT_NE(flaw.text.find(words), std::string::npos) << flaw.text;
  }
}

TEST(RowLogCheck, SoundLogsAreProven) {
  const RowsProof proof = check_rows(sound_rows(), {.tickets = 3});
  EXPECT_EQ(proof.tables, 1);
  EXPECT_EQ(proof.pushes, 3);
  EXPECT_EQ(proof.rows, 6);
  EXPECT_EQ(check_rows({.replicas = {{0, {told_line(0)}}}}, {.tickets = 3}).tables, 0)
      << "a job without tables";
}

TEST(RowLogCheck, APushThatIsMissingInAPartOrATableIsFound) {
  RunLogs logs = sound_rows();
  for (const int server : {1, 2}) std::erase(logs.servers[server], rows_line(1));
  expect_row_flaw(logs, {}, "replica 0 was told of ticket 1: part 0 of table 0 does not have its rows");
  expect_row_flaw(sound_rows(), {.tickets = 4}, "the run ended with ticket 3");
  logs = sound_rows();
  for (const int server : {1, 2}) logs.servers[server].push_back(rows_line(3, ~(kAllParts << 63)));
  logs.replicas[1].push_back(told_line(3));
  expect_row_flaw(logs, {}, "part 63 of table 0");
  logs = sound_rows();
  logs.servers[2].push_back(table_line(1));  // nobody pushed its rows
  expect_row_flaw(logs, {}, "part 0 of table 1");
}

TEST(RowLogCheck, APushThatCountsTwiceIsFound) {
  RunLogs logs = sound_rows();
  logs.servers[2].push_back(rows_line(1));
  expect_row_flaw(logs, {}, "server 2: ticket 1 counts twice in part 0 of table 0");
  logs = sound_rows();
  logs.servers[1].insert(logs.servers[1].begin(), given_line(1, {2, 3}, std::uint64_t{1} << 9));
  expect_row_flaw(logs, {}, "server 1: ticket 0 counts twice in part 9");
}

TEST(RowLogCheck, CopiesOfAPushThatDifferAreFound) {
  RunLogs logs = sound_rows();
  logs.servers[2][1].rows.rows[0].ids = 4;
  expect_row_flaw(logs, {},
                  "server 2 has 2 rows of ticket 0 in part 63 of table 0, others have 2, or other ones");
}

// Updates that only the lost primary had are done again; its successor was given the rest.
TEST(RowLogCheck, LostServersAndNewcomersLeaveTheProofWhole) {
  RunLogs logs = sound_rows();
  logs.servers[1].push_back(rows_line(3));  // not handed over
  logs.lost = {1};
  std::vector<LogLine> newcomer{table_line()};
  for (LogLine& line : lines_of_parts([](std::uint64_t part) { return given_line(1, {2, 3}, part); }))
    newcomer.push_back(line);
  newcomer.push_back(rows_line(1));  // from the old primary, while it was filled
  for (LogLine& line : lines_of_parts(forgotten_line)) newcomer.push_back(line);
  newcomer.push_back(rows_line(3));
  for (LogLine& line : lines_of_parts([](std::uint64_t part) { return given_line(3, {}, part); }))
    newcomer.push_back(line);
  logs.servers[3] = newcomer;
  EXPECT_EQ(check_rows(logs, {.tickets = 4}).pushes, 4);
  logs.servers.erase(2);  // the newcomer alone proves it
  EXPECT_EQ(check_rows(logs, {.tickets = 4}).pushes, 4);
  logs.servers.erase(3);
  EXPECT_EQ(check_rows(logs, {}).tables, 0) << "no server that lives says anything of rows";
}

}  // namespace
}  // namespace distbelief::server
