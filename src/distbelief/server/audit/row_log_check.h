#pragma once

#include <cstdint>

#include "distbelief/server/audit/log_check.h"

namespace distbelief::server {

struct RowsProof {
  std::int64_t tables = 0;
  std::int64_t pushes = 0;  // counted pushes of one ticket's rows to one table
  std::int64_t rows = 0;    // updated by these, as logged by servers that live
};

// Proves that every acknowledged ticket, and every promised one, is in every part of every table on a server
// that lives; that none counts twice there; and that all servers with a push logged the same rows for it.
// Throws LogFlaw. It does not need the logs of a lost server: its successor had the ticket or was given it.
// Pure.
RowsProof check_rows(const RunLogs& logs, const LogPromise& promise);

}  // namespace distbelief::server
