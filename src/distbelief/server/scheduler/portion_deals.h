#pragma once

#include <cstdint>

// The numbering of the portions of a batch method's evaluations as tickets. Pure. Each evaluation has a
// ticket for every portion and one more for the coordinator, which computes the result and the place of the
// next evaluation. The coordinator's ticket is dealt when all portions are done, and the next portions when
// it is done.
namespace distbelief::server {

struct PortionTicket {
  std::int64_t evaluation = 0;
  std::int64_t portion = 0;  // equal to the number of portions: the coordinator's
  bool operator==(const PortionTicket&) const = default;
};

PortionTicket portion_ticket(std::int64_t ticket, std::int64_t portions);
std::int64_t coordinator_ticket(std::int64_t evaluation, std::int64_t portions);
// Tickets below the result can be dealt when `done_below` is the first ticket that is not done.
std::int64_t dealable(std::int64_t done_below, std::int64_t portions);

}  // namespace distbelief::server
