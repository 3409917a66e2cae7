#include "distbelief/server/scheduler/portion_deals.h"

namespace distbelief::server {

PortionTicket portion_ticket(std::int64_t ticket, std::int64_t portions) {
  return {.evaluation = ticket / (portions + 1), .portion = ticket % (portions + 1)};
}

std::int64_t coordinator_ticket(std::int64_t evaluation, std::int64_t portions) {
  return evaluation * (portions + 1) + portions;
}

std::int64_t dealable(std::int64_t done_below, std::int64_t portions) {
  const PortionTicket first = portion_ticket(done_below, portions);
  const std::int64_t last = coordinator_ticket(first.evaluation, portions);
  return first.portion < portions ? last : last + 1;
}

}  // namespace distbelief::server
