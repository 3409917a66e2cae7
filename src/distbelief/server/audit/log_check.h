#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "distbelief/server/shard/update_log.h"

// Audits the logs of a run's servers and replicas. Pure, except read_run_logs.
namespace distbelief::server {

struct RunLogs {
  std::map<int, std::vector<LogLine>> servers{};   // by id
  std::vector<int> lost{};                         // servers, in the order in which they died
  std::map<int, std::vector<LogLine>> replicas{};  // acknowledged pushes
};

struct LogPromise {
  std::optional<std::int64_t> tickets{};    // tickets done, each once; nothing: the run did not end
  std::optional<std::int64_t> staleness{};  // no replica was further ahead of the slowest (bounded)
};

// A violation found in the logs.
struct LogFlaw {
  std::string text;
};

struct LogProof {
  bool proven = false;
  std::int64_t slices = 0;
  std::int64_t updates = 0;       // counted updates of all slices
  std::int64_t commands = 0;      // the same for commands (sandblaster)
  std::int64_t acknowledged = 0;  // pushes
  std::int64_t late = 0;          // pushes left out of the sum of their step (sync, spare replicas)
  std::int64_t begins = 0;        // steps begun within the bound
  std::int64_t row_pushes = 0;    // of tables' rows, in all parts
  std::int64_t undone = 0;        // updates that only a lost server had and no replica was told of
  std::string finding{};          // the proof, or the first violation
};

// Evaluations that the logs report finished (sandblaster).
std::int64_t evaluations_in(const RunLogs& logs);

// Proves that the versions of every slice are consecutive on every server; that all servers with an update of
// a slice have the same one, except what a lost server had not handed over; that no ticket counts twice in a
// slice; that each acknowledged push is in every slice; the same for rows of tables (row_log_check.h); and
// the promise.
LogProof check_logs(const RunLogs& logs, const LogPromise& promise);

// A run that used standing servers names them in this file: {"servers_at": their folder, "jobs": the marks of
// its jobs there, one in all or one for each sub-network}.
inline constexpr const char* kStandingFile = "standing.json";

// Selects the logs of one sub-network of a decomposed model.
struct LogChoice {
  int sub_network = -1;  // -1: a whole model
  int sub_networks = 1;
};
// Reads RUN/servers/ and RUN/events.jsonl, or the logs of the standing servers that the run used. Throws
// Error(kBadInput) when there are none, or they cannot be read.
RunLogs read_run_logs(const std::filesystem::path& run_dir, const LogChoice& choice = {});
// check_logs for every sub-network of a decomposed model: the first that fails, or all proofs together.
LogProof check_sub_networks(const std::filesystem::path& run_dir, int sub_networks,
                            const LogPromise& promise);

}  // namespace distbelief::server
