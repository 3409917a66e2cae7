#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "distbelief/server/shard/update_log.h"

// What the logs of a run's servers and replicas prove. Pure, but for read_run_logs.
namespace distbelief::server {

struct RunLogs {
  std::map<int, std::vector<LogLine>> servers{};   // by id
  std::vector<int> lost{};                         // servers, in the order in which they died
  std::map<int, std::vector<LogLine>> replicas{};  // pushes that were acknowledged
};

struct LogPromise {
  std::optional<std::int64_t> tickets{};    // that the run did, each once; nothing: it did not end
  std::optional<std::int64_t> staleness{};  // nobody was further ahead of the slowest (bounded)
};

// What is wrong with them.
struct LogFlaw {
  std::string text;
};

struct LogProof {
  bool proven = false;
  std::int64_t slices = 0;
  std::int64_t updates = 0;       // of all slices, that count
  std::int64_t commands = 0;      // the same (sandblaster)
  std::int64_t acknowledged = 0;  // pushes
  std::int64_t late = 0;          // pushes that are not in the sum of their step (sync, spare replicas)
  std::int64_t begins = 0;        // steps that were begun within the bound
  std::int64_t row_pushes = 0;    // of tables' rows, that are in all parts
  std::int64_t undone = 0;  // updates that only a lost server had: no replica was told that they were done
  std::string finding{};    // what was proven, or the first thing that is wrong
};

// Evaluations that were logged to be over (sandblaster).
std::int64_t evaluations_in(const RunLogs& logs);

// Proves that the versions of every slice follow one upon another on every server; that all servers that
// have an update of a slice have the same one, but for what a lost server had not handed over; that no ticket
// counts twice in a slice; that each push that a replica was told to be done is there, in every slice; the
// same of rows of tables (row_log_check.h); and what is promised.
LogProof check_logs(const RunLogs& logs, const LogPromise& promise);

// Where a run that used servers of others says whose: {"servers_at": their folder, "jobs": marks of its jobs
// there, one, or one for each sub-network}.
inline constexpr const char* kStandingFile = "standing.json";

// Which sub-network of a decomposed model a log is of, and how many there are.
struct LogChoice {
  int sub_network = -1;  // -1: of a whole model
  int sub_networks = 1;
};
// RUN/servers/ and RUN/events.jsonl, or those of the servers that it used. Throws Error(kBadInput) when there
// are none, or they cannot be read.
RunLogs read_run_logs(const std::filesystem::path& run_dir, const LogChoice& choice = {});
// The same of every sub-network of a decomposed model; the first that is wrong, or all together.
LogProof check_sub_networks(const std::filesystem::path& run_dir, int sub_networks,
                            const LogPromise& promise);

}  // namespace distbelief::server
