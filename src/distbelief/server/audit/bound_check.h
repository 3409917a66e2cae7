#pragma once

#include <cstdint>
#include <map>

#include "distbelief/server/audit/log_check.h"

namespace distbelief::server {

using UpdatesByTicket = std::map<std::int64_t, UpdateRecord>;
using SliceUpdates = std::map<std::int64_t, UpdatesByTicket>;  // the updates that count, by slice
// Null: the slice does not have this ticket.
const UpdateRecord* find_update(const SliceUpdates& updates, std::int64_t slice, std::int64_t ticket);

// Proves from the logs of the ticket schedulers that no step began more than `staleness` ahead of the slowest
// replica, and that each was computed from parameters with every update that it had to see: those of its own
// replica, and those of others that are more than `staleness` behind it. Returns the number of steps begun.
// Throws LogFlaw. Pure.
std::int64_t check_bound(const RunLogs& logs, std::int64_t staleness, const SliceUpdates& updates);

}  // namespace distbelief::server
