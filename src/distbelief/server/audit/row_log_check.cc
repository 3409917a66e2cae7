#include "distbelief/server/audit/row_log_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "distbelief/server/client/server_map.h"
#include "distbelief/server/scheduler/ticket_set.h"

namespace distbelief::server {
namespace {

using LineKind = LogLine::Kind;
using Parts = std::array<TicketSet, kParts>;           // finished tickets of each part of a table
using PushOf = std::pair<std::int32_t, std::int64_t>;  // table and ticket

template <typename Each>
void for_parts(std::uint64_t parts, const Each& each) {
  for (std::uint64_t left = parts; left != 0; left &= left - 1) each(std::countr_zero(left));
}

void take_in(TicketSet& all, std::int64_t below, const std::vector<std::int64_t>& ranges) {
  all.insert(0, below);
  for (std::size_t i = 0; i + 1 < ranges.size(); i += 2) all.insert(ranges[i], ranges[i + 1]);
}

class RowWitnesses {
 public:
  // Collects the final state of one server.
  void read(int server, const std::vector<LogLine>& lines) {
    std::map<std::int32_t, Parts> own;
    for (const LogLine& line : lines) {
      Parts* const parts = is_of_rows(line) ? &own[line.rows.table] : nullptr;
      if (parts == nullptr) continue;
      if (line.kind == LineKind::kRows) take_push(server, line.rows, *parts);
      for_parts(line.kind == LineKind::kRows ? 0 : line.rows.parts, [&](int part) {
        if (line.kind == LineKind::kRowsForgotten) (*parts)[std::size_t(part)] = {};
        if (line.kind == LineKind::kRowsGiven) take_in((*parts)[std::size_t(part)], line.below, line.ranges);
      });
    }
    for (const auto& [table, parts] : own)
      for (std::size_t part = 0; part < parts.size(); ++part)
        take_in(all_[table][part], parts[part].below(), parts[part].ranges());
  }

  void require(std::int64_t ticket, const std::string& why) const {
    for (const auto& [table, parts] : all_)
      for (std::size_t part = 0; part < parts.size(); ++part)
        if (!parts[part].contains(ticket))
          throw LogFlaw{fmt::format("{} ticket {}: part {} of table {} does not have its rows", why, ticket,
                                    part, table)};
  }

  RowsProof proof() const {
    RowsProof proof{.tables = std::int64_t(all_.size())};
    for (const auto& [table, parts] : all_)
      proof.pushes += std::ranges::min(parts, {}, &TicketSet::size).size();
    for (const auto& [push, rows] : pushed_)
      for (const auto& [part, seen] : rows) proof.rows += seen.rows;
    return proof;
  }

 private:
  static bool is_of_rows(const LogLine& line) {
    return line.kind == LineKind::kTable || line.kind == LineKind::kRows ||
           line.kind == LineKind::kRowsGiven || line.kind == LineKind::kRowsForgotten;
  }

  void take_push(int server, const RowsRecord& push, Parts& parts) {
    for_parts(push.parts, [&](int part) {
      if (!parts[std::size_t(part)].insert(push.ticket))
        throw LogFlaw{fmt::format("server {}: ticket {} counts twice in part {} of table {}", server,
                                  push.ticket, part, push.table)};
    });
    for (const RowsRecord::Part& rows : push.rows) {
      const auto [seen, is_new] = pushed_[{push.table, push.ticket}].emplace(rows.part, rows);
      if (!is_new && seen->second != rows)
        throw LogFlaw{
            fmt::format("server {} has {} rows of ticket {} in part {} of table {}, others have {}, "
                        "or other ones",
                        server, rows.rows, push.ticket, rows.part, push.table, seen->second.rows)};
    }
  }

  std::map<std::int32_t, Parts> all_;  // by table: of any server that lives
  std::map<PushOf, std::map<int, RowsRecord::Part>> pushed_;
};

}  // namespace

RowsProof check_rows(const RunLogs& logs, const LogPromise& promise) {
  RowWitnesses witnesses;
  for (const auto& [server, lines] : logs.servers)
    if (std::ranges::find(logs.lost, server) == logs.lost.end()) witnesses.read(server, lines);
  for (const auto& [replica, lines] : logs.replicas)
    for (const LogLine& line : lines)
      if (line.kind == LineKind::kAcknowledged)
        witnesses.require(line.update.ticket, fmt::format("replica {} was told of", replica));
  for (std::int64_t ticket = 0; promise.tickets && ticket < *promise.tickets; ++ticket)
    witnesses.require(ticket, "the run ended with");
  return witnesses.proof();
}

}  // namespace distbelief::server
