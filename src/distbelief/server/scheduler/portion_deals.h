#pragma once

#include <cstdint>

// How the portions of a batch method's evaluations are numbered as tickets. Pure. Each evaluation has a
// ticket for every portion and one more, the coordinator's: what comes of it, and where the next evaluation
// is. That one is dealt when all portions are done, and the next portions when it is done.
namespace distbelief::server {

struct PortionTicket {
  std::int64_t evaluation = 0;
  std::int64_t portion = 0;  // as many as there are portions: the coordinator's
  bool operator==(const PortionTicket&) const = default;
};

PortionTicket portion_ticket(std::int64_t ticket, std::int64_t portions);
std::int64_t coordinator_ticket(std::int64_t evaluation, std::int64_t portions);
// Tickets that can be dealt when all below `done_below` are done, and that one is not.
std::int64_t dealable(std::int64_t done_below, std::int64_t portions);

}  // namespace distbelief::server
