#pragma once

#include <cstdint>
#include <map>

#include "distbelief/server/audit/log_check.h"

namespace distbelief::server {

using UpdatesByTicket = std::map<std::int64_t, UpdateRecord>;
using SliceUpdates = std::map<std::int64_t, UpdatesByTicket>;  // that count, by slice
// Null: the slice does not have this ticket.
const UpdateRecord* find_update(const SliceUpdates& updates, std::int64_t slice, std::int64_t ticket);

// Proves from what servers have logged as dealers that no step was begun more than `staleness` ahead of the
// slowest, and that each was computed from parameters with all that it had to see: the steps of its own
// replica, and those of others that are more than `staleness` behind it. Gives how many steps were begun.
// Throws LogFlaw. Pure.
std::int64_t check_bound(const RunLogs& logs, std::int64_t staleness, const SliceUpdates& updates);

}  // namespace distbelief::server
