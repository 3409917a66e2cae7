#include "distbelief/server/audit/log_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "distbelief/base/error.h"
#include "distbelief/base/json_text.h"
#include "distbelief/base/text_lines.h"
#include "distbelief/server/audit/bound_check.h"
#include "distbelief/server/audit/row_log_check.h"

namespace distbelief::server {
namespace {

using LineKind = LogLine::Kind;
// The cause of a slice's version: an update, or a command, which has no ticket.
struct Change {
  UpdateRecord update{};
  std::optional<std::int64_t> command{};
  bool operator==(const Change&) const = default;
};
// By version.
using Chain = std::map<std::int64_t, Change>;

// The servers' testimony about one slice; a later loss overrides an earlier one. A server that continued
// without a lost one was lost later, or never, so the others overrule an update that only a lost server had.
class Witnesses {
 public:
  explicit Witnesses(const RunLogs& logs) {
    for (std::size_t i = 0; i < logs.lost.size(); ++i) death_[logs.lost[i]] = i;
    for (const auto& [server, lines] : logs.servers) order_.push_back(server);
    std::ranges::stable_sort(order_, {}, [&](int server) { return death(server); });
    for (const auto& [server, lines] : logs.servers) read(server, lines);
  }

  bool is_lost(int server) const { return death_.contains(server); }
  std::vector<std::int64_t> slices() const {
    std::set<std::int64_t> found;
    for (const auto& [key, chain] : chains_) found.insert(key.second);
    return {found.begin(), found.end()};
  }
  const Chain& chain(int server, std::int64_t slice) const { return chains_.at({server, slice}); }
  bool knows(int server, std::int64_t slice) const { return chains_.contains({server, slice}); }
  const std::vector<int>& servers() const { return order_; }

  // The updates that count: up to the last version of a server that was not lost.
  Chain settled(std::int64_t slice) const {
    Chain chain;
    std::int64_t last = -1;
    for (const int server : order_) {
      if (!knows(server, slice)) continue;
      for (const auto& [version, change] : this->chain(server, slice))
        chain.insert_or_assign(version, change);
      if (!is_lost(server)) last = std::max(last, last_.at({server, slice}));
    }
    if (last < 0) throw LogFlaw{fmt::format("no server that is left has slice {}", slice)};
    chain.erase(chain.upper_bound(last), chain.end());
    if (std::int64_t(chain.size()) != last)
      throw LogFlaw{
          fmt::format("slice {} is at version {}, but {} changes are logged", slice, last, chain.size())};
    return chain;
  }

 private:
  std::size_t death(int server) const {
    const auto found = death_.find(server);
    return found == death_.end() ? std::numeric_limits<std::size_t>::max() : found->second;
  }
  // Each version follows the one before, or a version that another server handed over.
  void read(int server, const std::vector<LogLine>& lines) {
    for (const LogLine& line : lines) {
      const bool is_change = line.kind == LineKind::kUpdate || line.kind == LineKind::kCommand;
      if (!is_change && line.kind != LineKind::kInstalled) continue;
      const auto key = std::pair(server, line.update.slice);
      const std::int64_t before = last_.contains(key) ? last_.at(key) : 0;
      const std::int64_t version = line.update.version;
      const bool follows = is_change ? version == before + 1 : version >= before;
      if (!follows)
        throw LogFlaw{fmt::format("server {}: version {} of slice {} comes after version {}", server, version,
                                  line.update.slice, before)};
      last_[key] = version;
      Chain& chain = chains_[key];
      if (!is_change) continue;
      chain[version] = {.update = line.update};
      if (line.kind == LineKind::kCommand) chain[version].command = line.number;
    }
  }

  std::map<int, std::size_t> death_;  // order of its loss
  std::vector<int> order_;            // in order of loss, surviving servers last
  std::map<std::pair<int, std::int64_t>, Chain> chains_;
  std::map<std::pair<int, std::int64_t>, std::int64_t> last_;  // versions
};

std::string described(const Change& change) {
  return change.command ? fmt::format("command {}", *change.command)
                        : fmt::format("ticket {} of replica {}", change.update.ticket, change.update.replica);
}

// A lost server may have more than it handed over; no other server may differ. Returns the number of undone
// updates.
std::int64_t check_agreement(const Witnesses& witnesses, std::int64_t slice, const Chain& settled) {
  std::int64_t undone = 0;
  for (const int server : witnesses.servers()) {
    if (!witnesses.knows(server, slice)) continue;
    bool parted = false;
    for (const auto& [version, change] : witnesses.chain(server, slice)) {
      const auto found = settled.find(version);
      parted = parted || found == settled.end() || found->second != change;
      undone += parted ? 1 : 0;
      if (parted && !witnesses.is_lost(server))
        throw LogFlaw{fmt::format("server {} has {} as version {} of slice {}, others have another update",
                                  server, described(change), version, slice)};
    }
  }
  return undone;
}

// Commands come once, in their order. Returns their number.
std::int64_t check_commands(std::int64_t slice, const Chain& settled) {
  std::int64_t next = 0;
  for (const auto& [version, change] : settled)
    if (change.command && *change.command != next++)
      throw LogFlaw{fmt::format("version {} of slice {} is made by command {}, and command {} was to come",
                                version, slice, *change.command, next - 1)};
  return next;
}

UpdatesByTicket check_tickets(std::int64_t slice, const Chain& settled, const LogPromise& promise) {
  UpdatesByTicket updates;
  for (const auto& [version, change] : settled) {
    const std::int64_t ticket = change.update.ticket;
    if (!change.command && !updates.emplace(ticket, change.update).second)
      throw LogFlaw{fmt::format("ticket {} counts twice in slice {}: as versions {} and {}", ticket, slice,
                                updates.at(ticket).version, version)};
  }
  for (std::int64_t ticket = 0; promise.tickets && ticket < *promise.tickets; ++ticket)
    if (!updates.contains(ticket))
      throw LogFlaw{fmt::format("ticket {} never came to slice {}", ticket, slice)};
  if (promise.tickets && std::int64_t(updates.size()) != *promise.tickets)
    throw LogFlaw{fmt::format("slice {} had {} updates, the run {} pieces of work", slice, updates.size(),
                              *promise.tickets)};
  return updates;
}

// Returns whether the push is in every sum where it belongs (sync).
bool check_answered(int replica, const LogLine& line, const SliceUpdates& updates) {
  bool is_in_all = true;
  for (std::size_t slice = 0; slice < line.versions.size(); ++slice) {
    const UpdateRecord* const update = find_update(updates, std::int64_t(slice), line.update.ticket);
    const bool is_there = update != nullptr && update->version <= line.versions[slice];
    if (!is_there)
      throw LogFlaw{
          fmt::format("replica {} was told that ticket {} is in slice {} at version {}, and it is not",
                      replica, line.update.ticket, slice, line.versions[slice])};
    const bool is_in_sum = update->of.empty() || std::ranges::find(update->of, replica) != update->of.end();
    if (!is_in_sum && line.kind == LineKind::kAcknowledged)
      throw LogFlaw{
          fmt::format("replica {} was told that its gradient of step {} counts, and it is not in the "
                      "sum of slice {}",
                      replica, line.update.ticket, slice)};
    is_in_all = is_in_all && is_in_sum;
  }
  return is_in_all;
}

std::string finding_of(const LogProof& proof, const RunLogs& logs, const LogPromise& promise) {
  std::string text = fmt::format(
      "{} servers, of which {} were lost: {} updates of {} slices follow one upon another, each ticket "
      "counts "
      "once, all copies agree, and {} pushes that were acknowledged are all there",
      logs.servers.size(), logs.lost.size(), proof.updates, proof.slices, proof.acknowledged);
  if (proof.undone > 0)
    text += fmt::format("; {} updates that only lost servers had were never acknowledged", proof.undone);
  if (proof.late > 0)
    text += fmt::format("; {} pushes came too late for their step and are not in its sum", proof.late);
  if (proof.commands > 0) text += fmt::format("; {} commands came in their order", proof.commands);
  if (promise.tickets) text += fmt::format("; all {} pieces of work were done", *promise.tickets);
  if (promise.staleness)
    text += fmt::format(
        "; {} steps were begun at most {} ahead of the slowest, with parameters that have all steps further "
        "back",
        proof.begins, *promise.staleness);
  return text;
}

std::string finding_of(const RowsProof& rows) {
  if (rows.tables == 0) return "";
  return fmt::format("; {} pushes of rows of {} tables, with {} rows, are in all parts, each once",
                     rows.pushes, rows.tables, rows.rows);
}

}  // namespace

std::int64_t evaluations_in(const RunLogs& logs) {
  std::int64_t most = 0;
  for (const auto& [server, lines] : logs.servers)
    for (const LogLine& line : lines)
      if (line.kind == LineKind::kEvaluation) most = std::max(most, line.number);
  return most;
}

LogProof check_logs(const RunLogs& logs, const LogPromise& promise) {
  LogProof proof;
  RowsProof rows;
  try {
    const Witnesses witnesses(logs);
    SliceUpdates updates;
    for (const std::int64_t slice : witnesses.slices()) {
      const Chain settled = witnesses.settled(slice);
      proof.undone += check_agreement(witnesses, slice, settled);
      updates[slice] = check_tickets(slice, settled, promise);
      proof.updates += std::int64_t(updates[slice].size());
      proof.commands += check_commands(slice, settled);
      ++proof.slices;
    }
    for (const auto& [replica, lines] : logs.replicas)
      for (const LogLine& line : lines) {
        if (line.kind != LineKind::kAcknowledged && line.kind != LineKind::kLate) continue;
        const bool is_in_all = check_answered(replica, line, updates);
        proof.acknowledged += line.kind == LineKind::kAcknowledged ? 1 : 0;
        proof.late += is_in_all ? 0 : 1;
      }
    if (promise.staleness) proof.begins = check_bound(logs, *promise.staleness, updates);
    rows = check_rows(logs, promise);
    proof.row_pushes = rows.pushes;
    if (proof.updates == 0) throw LogFlaw{"there are no updates in the logs"};
    proof.finding = finding_of(proof, logs, promise) + finding_of(rows);
    proof.proven = true;
  } catch (const LogFlaw& flaw) {
    proof.finding = flaw.text;
  }
  return proof;
}

namespace {

// The place of the logs to check.
struct LogPlace {
  std::filesystem::path folder{};  // of a run, or of standing servers
  std::string job{};               // mark at the start of the logs; empty: there is one job
};

LogPlace place_of_logs(const std::filesystem::path& run_dir, const LogChoice& choice) {
  const std::filesystem::path file = run_dir / kStandingFile;
  if (!std::filesystem::exists(file)) return {.folder = run_dir};
  LogPlace place;
  try {
    const nlohmann::json standing = read_json(file);
    place = {.folder = standing.at("servers_at").get<std::string>(),
             .job = standing.at("jobs").at(std::size_t(std::max(0, choice.sub_network))).get<std::string>()};
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} does not say whose servers this run used: {}", file.string(), error.what()));
  }
  if (!std::filesystem::is_directory(place.folder))
    throw Error(ErrorCode::kBadInput,
                fmt::format("the servers of this run stood at {}, which is no folder here: what they logged "
                            "is in the folder of `distbelief servers`, on its machine; write that one as "
                            "servers_at into {}",
                            place.folder.string(), file.string()));
  return place;
}

// The server that wrote this log; nothing: it is not one of the job's logs.
std::optional<int> server_of(const std::filesystem::path& path, const LogChoice& choice,
                             const LogPlace& place) {
  int job = 0, server = 0, sub_network = -1;
  const int read = std::sscanf(path.stem().c_str(), "%d-server%d-sub%d", &job, &server, &sub_network);
  if (choice.sub_network < 0 ? read != 2 : read != 3 || sub_network != choice.sub_network) return {};
  const bool is_it = place.job.empty() ? job == 0 || choice.sub_network >= 0 : mark_of_log(path) == place.job;
  return is_it ? std::optional(server) : std::nullopt;
}

void read_servers(RunLogs& logs, const LogPlace& place, const LogChoice& choice) {
  const std::filesystem::path folder = place.folder / "servers";
  if (std::filesystem::exists(folder))
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (const std::optional<int> server = server_of(entry.path(), choice, place))
        logs.servers[*server] = read_log(entry.path());
  if (logs.servers.empty())
    throw Error(ErrorCode::kBadInput, fmt::format("{} has no logs of parameter servers{}", folder.string(),
                                                  place.job.empty() ? "" : " for job " + place.job));
}

// In the order in which they died. A server lost after the job was over had everything and does not count as
// lost.
void read_losses(RunLogs& logs, const std::filesystem::path& events_file) {
  for (TextLines events(events_file); events.next();) {
    const nlohmann::json event = json_or_discarded(events.line());
    if (!event.is_object()) continue;
    const nlohmann::json kind = event.value("event", nlohmann::json());
    const nlohmann::json server = event.value("server", nlohmann::json());
    if (kind == "servers" && event.value("epoch", nlohmann::json()) == 1)
      logs.lost.clear();  // the run was resumed
    if (kind == "server lost" && server.is_number_integer()) logs.lost.push_back(server.get<int>());
  }
  std::erase_if(logs.lost, [&](int server) {
    const auto found = logs.servers.find(server);
    return found != logs.servers.end() &&
           std::ranges::find(found->second, LineKind::kOver, &LogLine::kind) != found->second.end();
  });
}

}  // namespace

LogProof check_sub_networks(const std::filesystem::path& run_dir, int sub_networks,
                            const LogPromise& promise) {
  LogProof all{.proven = true};
  for (int i = 0; i < sub_networks; ++i) {
    const LogProof one =
        check_logs(read_run_logs(run_dir, {.sub_network = i, .sub_networks = sub_networks}), promise);
    all.proven = all.proven && one.proven;
    all.slices += one.slices;
    all.updates += one.updates;
    all.acknowledged += one.acknowledged;
    all.undone += one.undone;
    all.finding += fmt::format("{}sub-network {}: {}", i == 0 ? "" : "\n", i, one.finding);
    if (!one.proven) break;
  }
  return all;
}

RunLogs read_run_logs(const std::filesystem::path& run_dir, const LogChoice& choice) {
  RunLogs logs;
  const LogPlace place = place_of_logs(run_dir, choice);
  read_servers(logs, place, choice);
  if (std::filesystem::exists(run_dir / "servers"))
    for (const auto& entry : std::filesystem::directory_iterator(run_dir / "servers")) {
      int number = 0;
      if (std::sscanf(entry.path().stem().c_str(), "replica%d", &number) == 1 &&
          (choice.sub_network < 0 || number % choice.sub_networks == choice.sub_network))
        logs.replicas[number] = read_log(entry.path());
    }
  read_losses(logs, place.folder / "events.jsonl");
  return logs;
}

}  // namespace distbelief::server
