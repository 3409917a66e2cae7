#include "distbelief/server/audit/log_check.h"

#include <gtest/gtest.h>

#include "distbelief/base/error.h"
#include "distbelief/base/scratch_folder.h"

namespace distbelief::server {
namespace {

using LineKind = LogLine::Kind;

LogLine update(std::int64_t version, std::int64_t ticket, std::int64_t slice = 0) {
  return {.update = {.slice = slice, .version = version, .ticket = ticket, .base = version - 1, .lr = 0.1}};
}
LogLine installed(std::int64_t version, std::int64_t slice = 0) {
  return {.kind = LineKind::kInstalled, .update = {.slice = slice, .version = version}};
}
LogLine command(std::int64_t version, std::int64_t number, std::int64_t slice = 0) {
  return {.kind = LineKind::kCommand, .update = {.slice = slice, .version = version}, .number = number};
}
LogLine acknowledged(std::int64_t ticket, std::vector<std::int64_t> versions) {
  return {.kind = LineKind::kAcknowledged, .update = {.ticket = ticket}, .versions = std::move(versions)};
}
LogLine begin(int replica, std::int64_t clock, std::int64_t slowest, std::int64_t ticket = 99) {
  return {.kind = LineKind::kBegin,
          .update = {.ticket = ticket, .replica = replica},
          .clock = clock,
          .slowest = slowest};
}
LogLine joined(int replica, std::int64_t clock) {
  return {.kind = LineKind::kJoined, .update = {.replica = replica}, .clock = clock};
}
LogLine left(int replica) { return {.kind = LineKind::kLeft, .update = {.replica = replica}}; }

void expect_flaw(const RunLogs& logs, const LogPromise& promise, const std::string& words) {
  const LogProof proof = check_logs(logs, promise);
  EXPECT_FALSE(proof.proven) << proof.finding;
  EXPECT_NE(proof.finding.find(words), std::string::npos) << proof.finding;
}

// A primary and its backup, and the replica's acknowledgements.
RunLogs sound() {
  return {.servers = {{1, {update(1, 0), update(2, 2), update(3, 1)}},
                      {2, {update(1, 0), update(2, 2), update(3, 1)}}},
          .replicas = {{0, {acknowledged(0, {1}), acknowledged(2, {2}), acknowledged(1, {3})}}}};
}

TEST(LogCheck, SoundLogsAreProven) {
  const LogProof proof = check_logs(sound(), {.tickets = 3});
  EXPECT_TRUE(proof.proven) << proof.finding;
  EXPECT_EQ(proof.updates, 3);
  EXPECT_EQ(proof.acknowledged, 3);
  EXPECT_EQ(proof.undone, 0);
}

TEST(LogCheck, AnUpdateThatIsMissingDoubledOrOutOfTurnIsFound) {
  expect_flaw(sound(), {.tickets = 4}, "ticket 3 never came");
  RunLogs logs = sound();
  logs.servers[2].erase(logs.servers[2].begin() + 1);
  expect_flaw(logs, {}, "version 3 of slice 0 comes after version 1");
  logs = sound();
  for (const int server : {1, 2}) logs.servers[server].push_back(update(4, 2));
  expect_flaw(logs, {}, "ticket 2 counts twice");
  logs = sound();
  logs.servers[1].push_back(update(4, 3, 1));
  expect_flaw(logs, {}, "version 4 of slice 1 comes after version 0");
}

TEST(LogCheck, CopiesThatDifferAreFound) {
  RunLogs logs = sound();
  logs.servers[2][1].update.ticket = 7;
  expect_flaw(logs, {}, "others have another update");
  logs = sound();
  logs.servers[2][1].update.lr = 0.2;
  expect_flaw(logs, {}, "others have another update");
}

TEST(LogCheck, WhatOnlyALostServerHadIsUndoneUnlessItWasAcknowledged) {
  RunLogs logs = sound();
  logs.servers[1].push_back(update(4, 3));  // not handed over
  logs.servers[2].push_back(update(4, 4));  // the backup went on
  logs.servers[2].push_back(update(5, 3));  // and was sent the other again
  logs.lost = {1};
  LogProof proof = check_logs(logs, {.tickets = 5});
  EXPECT_TRUE(proof.proven) << proof.finding;
  EXPECT_EQ(proof.undone, 1);
  logs.replicas[0].push_back(acknowledged(3, {4}));
  expect_flaw(logs, {}, "replica 0 was told that ticket 3 is in slice 0 at version 4");
}

TEST(LogCheck, ANewcomerGoesOnFromWhatItWasGiven) {
  RunLogs logs = sound();
  logs.servers[3] = {installed(2), update(3, 1), update(4, 3)};
  logs.servers[2].push_back(update(4, 3));
  logs.lost = {1, 2};
  const LogProof proof = check_logs(logs, {.tickets = 4});
  EXPECT_TRUE(proof.proven) << proof.finding;
  EXPECT_EQ(proof.updates, 4);
  logs.servers.erase(1);
  logs.servers[2].erase(logs.servers[2].begin(), logs.servers[2].begin() + 3);
  expect_flaw(logs, {}, "version 4 of slice 0 comes after version 0");
  logs.servers.erase(2);
  expect_flaw(logs, {}, "slice 0 is at version 4, but 2 changes are logged");
  logs.lost.push_back(3);
  expect_flaw(logs, {}, "no server that is left has slice 0");
}

TEST(LogCheck, CommandsMakeVersionsAndHaveNoTicket) {
  const std::vector<LogLine> lines{update(1, 0), update(2, 1), command(3, 0), command(4, 1), update(5, 2)};
  RunLogs logs{.servers = {{1, lines}, {2, lines}}, .replicas = {{0, {acknowledged(2, {5})}}}};
  const LogProof proof = check_logs(logs, {.tickets = 3});
  EXPECT_TRUE(proof.proven) << proof.finding;
  EXPECT_EQ(proof.updates, 3);
  EXPECT_EQ(proof.commands, 2);
  RunLogs doubled = logs;
  for (const int server : {1, 2}) doubled.servers[server][3].number = 0;
  expect_flaw(doubled, {}, "version 4 of slice 0 is made by command 0, and command 1 was to come");
  RunLogs differing = logs;
  differing.servers[2][2] = update(3, 9);
  expect_flaw(differing, {}, "others have another update");
  logs.servers[1].pop_back();  // not handed over when it was lost: the other did it
  logs.servers[1].push_back(command(5, 2));
  logs.lost = {1};
  EXPECT_TRUE(check_logs(logs, {.tickets = 3}).proven) << check_logs(logs, {}).finding;
  EXPECT_EQ(check_logs(logs, {}).undone, 1);
}

TEST(LogCheck, ARunOnServersOfOthersIsReadFromTheirLogsOfItsJob) {
  const ScratchFolder scratch;
  const std::filesystem::path run = scratch.path() / "run", standing = scratch.path() / "standing";
  for (const auto& folder : {run / "servers", standing / "servers"})
    std::filesystem::create_directories(folder);
  const auto log = [&](const char* name, const std::string& job, int tickets) {
    UpdateLog file(standing / "servers" / name);
    file.append_job(job_mark(job));
    for (int i = 0; i < tickets; ++i) file.append({.version = i + 1, .ticket = i});
    if (job == "ours") file.note_over();
  };
  log("0-server1.jsonl", "theirs", 5);
  log("1-server1.jsonl", "ours", 2);
  log("0-server2.jsonl", "ours", 2);  // it joined later, so the job is its first
  UpdateLog(run / "servers" / "replica0.jsonl").append_acknowledged(1, {2});
  // Both were lost after the job was over.
  write_text(standing / "events.jsonl",
             "{\"event\":\"server lost\",\"server\":1}\n{\"event\":\"server lost\",\"server\":2}\n");
  write_text(run / kStandingFile,
             "{\"servers_at\":\"" + standing.string() + "\",\"jobs\":[\"" + job_mark("ours") + "\"]}");
  const RunLogs logs = read_run_logs(run);
  EXPECT_EQ(logs.servers.size(), 2U);
  EXPECT_TRUE(logs.lost.empty());
  const LogProof proof = check_logs(logs, {.tickets = 2});
  EXPECT_TRUE(proof.proven) << proof.finding;
  EXPECT_EQ(proof.acknowledged, 1);
  write_text(run / kStandingFile, R"({"servers_at":"host:1,host:2","jobs":["1"]})");
  EXPECT_THROW(read_run_logs(run), Error);
  write_text(run / kStandingFile, "[]");
  EXPECT_THROW(read_run_logs(run), Error);
}

TEST(LogCheck, ABrokenBoundIsFound) {
  RunLogs logs = sound();
  std::vector<LogLine>& dealer = logs.servers[1];
  dealer.insert(dealer.end(), {joined(0, 0), joined(1, 0), begin(0, 0, 0), begin(1, 0, 0), begin(0, 1, 0)});
  const LogProof proof = check_logs(logs, {.staleness = 1});
  EXPECT_TRUE(proof.proven) << proof.finding;
  EXPECT_EQ(proof.begins, 3);
  expect_flaw(logs, {.staleness = 0}, "replica 0 began step 1 when the slowest had done 0");
  // The scheduler claims that replica 1 had done two steps, and it then begins its second.
  RunLogs lying = logs;
  lying.servers[1].insert(lying.servers[1].end(), {begin(0, 2, 2), begin(1, 1, 1)});
  expect_flaw(lying, {.staleness = 1}, "the slowest was said to have done 2 steps when replica 1 had done 1");
  // No replica waits for one that left.
  RunLogs parted = logs;
  parted.servers[1].insert(parted.servers[1].end(), {left(1), begin(0, 2, 2), joined(1, 2), begin(1, 3, 2)});
  EXPECT_TRUE(check_logs(parted, {.staleness = 1}).proven) << check_logs(parted, {.staleness = 1}).finding;
  logs.servers[1].push_back(begin(0, 3, 3));
  expect_flaw(logs, {.staleness = 1}, "replica 0 began step 3 out of turn");
}

TEST(LogCheck, APushThatCameTooLateForItsStepIsToldFromOneThatCounts) {
  RunLogs logs{.servers = {{1, {update(1, 0), update(2, 1)}}},
               .replicas = {{0, {acknowledged(0, {1}), acknowledged(1, {2})}}, {1, {acknowledged(0, {1})}}}};
  for (LogLine& line : logs.servers[1]) line.update.of = {0, 1};
  logs.servers[1].back().update.of = {0};
  EXPECT_TRUE(check_logs(logs, {.tickets = 2}).proven) << check_logs(logs, {}).finding;
  logs.replicas[1].push_back(acknowledged(1, {2}));
  expect_flaw(logs, {}, "replica 1 was told that its gradient of step 1 counts, and it is not in the sum");
  logs.replicas[1].back().kind = LineKind::kLate;
  const LogProof proof = check_logs(logs, {.tickets = 2});
  EXPECT_TRUE(proof.proven) << proof.finding;
  EXPECT_EQ(proof.late, 1);
  EXPECT_EQ(proof.acknowledged, 3);
}

// Two replicas take turns, ticket by ticket: replica 0 has the even ones.
RunLogs bounded(std::int64_t base_of_last) {
  std::vector<LogLine> lines{joined(0, 0), joined(1, 0)};
  for (std::int64_t ticket = 0; ticket < 4; ++ticket) {
    const int replica = int(ticket % 2);
    lines.push_back(begin(replica, ticket / 2, ticket / 2, ticket));
    lines.push_back(update(ticket + 1, ticket));
    lines.back().update.replica = replica;
  }
  lines.back().update.base = base_of_last;
  return {.servers = {{1, lines}}};
}

TEST(LogCheck, AStepThatDidNotSeeWhatItHadToIsFound) {
  for (const std::int64_t staleness : {0, 1}) {
    const LogProof proof = check_logs(bounded(3), {.tickets = 4, .staleness = staleness});
    EXPECT_TRUE(proof.proven) << proof.finding;
    EXPECT_EQ(proof.begins, 4);
  }
  // Step 1 of replica 1 need not see step 1 of replica 0, which is ticket 2. It must see step 0 of both; its
  // own always.
  EXPECT_TRUE(check_logs(bounded(2), {.staleness = 0}).proven);
  expect_flaw(bounded(1), {.staleness = 0}, "was computed from version 1, without ticket 1 (step 0)");
  expect_flaw(bounded(1), {.staleness = 1}, "without ticket 1 (step 0), which it had to see");
  expect_flaw(bounded(0), {.staleness = 0}, "without ticket 0 (step 0), which it had to see");
  // A replica that began it twice may have computed it from its first fetch.
  RunLogs twice = bounded(0);
  twice.servers[2] = {joined(1, 1), begin(1, 1, 1, 3)};
  EXPECT_TRUE(check_logs(twice, {.staleness = 0}).proven) << check_logs(twice, {.staleness = 0}).finding;
  // No replica waits for the late updates of one that left.
  RunLogs parted = bounded(1);
  std::vector<LogLine>& lines = parted.servers[1];
  lines.insert(lines.end() - 2, {left(0), left(1), joined(1, 1)});
  EXPECT_TRUE(check_logs(parted, {.staleness = 0}).proven) << check_logs(parted, {.staleness = 0}).finding;
}

}  // namespace
}  // namespace distbelief::server
