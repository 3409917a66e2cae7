#include "distbelief/compute/portion_sum.h"
#include "distbelief/server/client/client_connection.h"
#include "distbelief/server/service/budget.h"
#include "distbelief/server/service/space.h"

// The memory that a job needs on a server.
namespace distbelief::server {

using comm::kSliceElements;
using comm::SpaceSpec;

namespace {

std::size_t slices_here(const SpaceSpec& spec, const Roles& roles) {
  std::size_t slices = 0;
  for (std::size_t part = 0; part < roles.map.parts.size(); ++part)
    if (roles.holds(roles.map.parts[part]))
      slices += spec.slices() / kParts + (part < spec.slices() % kParts ? 1 : 0);
  return slices;
}

// Bounded tables only: rows of other tables count as they come.
std::size_t bounded_rows_bytes(const SpaceSpec& spec, const Roles& roles) {
  std::size_t parts = 0;
  for (const ServerMap::Part& part : roles.map.parts) parts += roles.holds(part) ? 1 : 0;
  std::size_t bytes = 0;
  for (const comm::TableSpec& table : spec.tables)
    if (table.most_rows > 0)
      bytes = saturating_add(
          bytes, saturating_product(Table::most_rows_of_part(table) * parts, Table::row_bytes(table)));
  return bytes;
}

}  // namespace

std::size_t bytes_for(const SpaceSpec& spec, const Roles& roles) {
  const bool is_synchronous = spec.mode == "sync";
  const std::size_t states = compute::make_optimizer(spec.optimizer)->state_names().size();
  const std::size_t copies =
      1 + states + (is_synchronous ? 2 : 0) +
      (spec.vectors > 0 ? std::size_t(spec.vectors) - 1 + compute::PortionSum::kSpare : 0);
  // The lanes' values of a step, the means of two steps, and running statistics.
  const bool has_desk = roles.holds(roles.map.desk());
  const std::size_t rows = has_desk ? std::size_t(is_synchronous ? spec.lanes + 3 : 1) * spec.lane_values : 0;
  const std::size_t floats =
      saturating_add(saturating_product(slices_here(spec, roles), kSliceElements * copies), rows);
  const std::size_t inputs =
      has_desk ? saturating_product(std::size_t(spec.window) * InputWindow::kDrafts, spec.input_bytes) : 0;
  return saturating_add(saturating_add(saturating_product(floats, sizeof(float)), inputs),
                        bounded_rows_bytes(spec, roles));
}

std::size_t shared_bytes_for(const SpaceSpec& spec) {
  return spec.slices() * kSliceElements * sizeof(float) + (spec.tables.empty() ? 0 : kRowRoomBytes);
}

}  // namespace distbelief::server
