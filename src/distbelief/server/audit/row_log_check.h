#pragma once

#include <cstdint>

#include "distbelief/server/audit/log_check.h"

namespace distbelief::server {

struct RowsProof {
  std::int64_t tables = 0;
  std::int64_t pushes = 0;  // of one table's rows by one ticket, that count
  std::int64_t rows = 0;    // that these have updated, as far as a server that lives has logged it
};

// Proves that every ticket that a replica was told to be done, and all that are promised, are in every part
// of every table on a server that lives; that none counts twice there; and that all of these that have a push
// know of the same rows. Throws LogFlaw. What a server that was lost has logged is not needed for it: whoever
// took its place had it, or was given it. Pure.
RowsProof check_rows(const RunLogs& logs, const LogPromise& promise);

}  // namespace distbelief::server
