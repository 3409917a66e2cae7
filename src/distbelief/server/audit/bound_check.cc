#include "distbelief/server/audit/bound_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace distbelief::server {
namespace {

using LineKind = LogLine::Kind;

using Work = std::pair<std::int64_t, int>;  // a ticket and the replica that began it
struct Evidence {
  std::int64_t staleness = 0;
  const SliceUpdates& updates;
  std::map<Work, int> begins{};  // how often each began
};

// Replicas' clocks according to the log of one ticket scheduler. A replica that begins has done all steps
// that it began before; another has done those before the one that it began last, and perhaps that one. Idle
// replicas are not waited for, so a replica must have been counted only if it begins again while none joins
// or leaves.
class Clocks {
 public:
  Clocks(int server, const Evidence& evidence) : server_(server), evidence_(evidence) {}

  void check(const std::vector<LogLine>& lines) {
    for (const LogLine& line : lines) {
      const int replica = line.update.replica;
      if (line.kind == LineKind::kBegin) {
        begin(replica, line);
        require_seen(replica, line);
      } else if (line.kind == LineKind::kJoined) {
        began_[replica] = line.clock - 1;
        steps_.erase(replica);
        came_.insert(replica);
        claims_.clear();
      } else if (line.kind == LineKind::kLeft) {
        began_.erase(replica);
        steps_.erase(replica);  // its last updates may come later, or never
        claims_.clear();
      }
    }
  }

 private:
  struct Step {
    std::int64_t clock = 0;
    std::int64_t ticket = 0;
  };

  void begin(int replica, const LogLine& line) {
    if (line.clock - line.slowest > evidence_.staleness)
      throw LogFlaw{fmt::format("server {}: replica {} began step {} when the slowest had done {}", server_,
                                replica, line.clock, line.slowest)};
    const auto before = began_.find(replica);
    // A replica that changes to another scheduler first reports the steps that it did since the last.
    const bool has_just_come = came_.erase(replica) > 0;
    if (before == began_.end() || line.clock < before->second + 1 ||
        (line.clock > before->second + 1 && !has_just_come))
      throw LogFlaw{
          fmt::format("server {}: replica {} began step {} out of turn", server_, replica, line.clock)};
    // It was there when others began, so the slowest clocks that they were told must include it.
    for (const std::int64_t slowest : claims_[replica])
      if (slowest > line.clock)
        throw LogFlaw{
            fmt::format("server {}: the slowest was said to have done {} steps when replica {} had "
                        "done {} at most",
                        server_, slowest, replica, line.clock)};
    claims_[replica].clear();
    before->second = line.clock;
    for (const auto& [other, clock] : began_)
      if (other != replica) claims_[other].push_back(line.slowest);
  }

  // Every step of another replica that had begun when this one began, and that it must see, was done: the
  // scheduler confirmed it.
  void require_seen(int replica, const LogLine& line) {
    const std::int64_t ticket = line.update.ticket;
    // A replica that began it twice, because a scheduler was lost: the logs do not tell to which time its
    // update belongs.
    if (evidence_.begins.at({ticket, replica}) == 1)
      for (const auto& [other, steps] : steps_) {
        const std::int64_t below = line.clock - (other == replica ? 0 : evidence_.staleness);
        const auto last = std::ranges::lower_bound(steps, below, {}, &Step::clock);
        // A replica sees its own updates, so they follow one upon another, and the last one decides.
        if (last != steps.begin()) require_seen(replica, ticket, *std::prev(last));
      }
    steps_[replica].push_back({.clock = line.clock, .ticket = ticket});
  }

  void require_seen(int replica, std::int64_t ticket, const Step& step) const {
    for (const auto& [slice, tickets] : evidence_.updates) {
      const UpdateRecord* const own = find_update(evidence_.updates, slice, ticket);
      if (own == nullptr || own->replica != replica) continue;  // not there yet, or done by another replica
      const UpdateRecord* const seen = find_update(evidence_.updates, slice, step.ticket);
      if (seen == nullptr || seen->version > own->base)
        throw LogFlaw{fmt::format(
            "slice {}: ticket {} of replica {} was computed from version {}, without ticket {} (step {}), "
            "which it had to see",
            slice, ticket, replica, own->base, step.ticket, step.clock)};
    }
  }

  int server_;
  const Evidence& evidence_;
  std::map<int, std::int64_t> began_;                // the step that each began last
  std::set<int> came_;                               // have not begun a step
  std::map<int, std::vector<std::int64_t>> claims_;  // slowest clocks that others were told since then
  std::map<int, std::vector<Step>> steps_;           // begun by each since it joined
};

}  // namespace

const UpdateRecord* find_update(const SliceUpdates& updates, std::int64_t slice, std::int64_t ticket) {
  const auto tickets = updates.find(slice);
  if (tickets == updates.end()) return nullptr;
  const auto found = tickets->second.find(ticket);
  return found == tickets->second.end() ? nullptr : &found->second;
}

std::int64_t check_bound(const RunLogs& logs, std::int64_t staleness, const SliceUpdates& updates) {
  Evidence evidence{.staleness = staleness, .updates = updates};
  std::int64_t begins = 0;
  for (const auto& [server, lines] : logs.servers)
    for (const LogLine& line : lines)
      if (line.kind == LineKind::kBegin) {
        ++evidence.begins[{line.update.ticket, line.update.replica}];
        ++begins;
      }
  for (const auto& [server, lines] : logs.servers) Clocks(server, evidence).check(lines);
  return begins;
}

}  // namespace distbelief::server
