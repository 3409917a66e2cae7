#include "distbelief/server/log_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "distbelief/base/error.h"
#include "distbelief/base/json_text.h"
#include "distbelief/base/text_lines.h"
#include "distbelief/server/row_log_check.h"

namespace distbelief::server {
namespace {

using LineKind = LogLine::Kind;
// The update that made each version of a slice.
using Chain = std::map<std::int64_t, UpdateRecord>;

// Servers as witnesses of one slice: who was lost later knows better. Whoever went on without a lost server
// was lost later, or not at all, so that what a lost server alone had is overruled.
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

  // The updates that count: up to the last that a server has that was not lost.
  Chain settled(std::int64_t slice) const {
    Chain chain;
    std::int64_t last = -1;
    for (const int server : order_) {
      if (!knows(server, slice)) continue;
      for (const auto& [version, update] : this->chain(server, slice))
        chain.insert_or_assign(version, update);
      if (!is_lost(server)) last = std::max(last, last_.at({server, slice}));
    }
    if (last < 0) throw LogFlaw{fmt::format("no server that is left has slice {}", slice)};
    chain.erase(chain.upper_bound(last), chain.end());
    if (std::int64_t(chain.size()) != last)
      throw LogFlaw{
          fmt::format("slice {} is at version {}, but {} updates are logged", slice, last, chain.size())};
    return chain;
  }

 private:
  std::size_t death(int server) const {
    const auto found = death_.find(server);
    return found == death_.end() ? std::numeric_limits<std::size_t>::max() : found->second;
  }
  // Each version follows the one before, or what another server handed over.
  void read(int server, const std::vector<LogLine>& lines) {
    for (const LogLine& line : lines) {
      if (line.kind != LineKind::kUpdate && line.kind != LineKind::kInstalled) continue;
      const auto key = std::pair(server, line.update.slice);
      const std::int64_t before = last_.contains(key) ? last_.at(key) : 0;
      const std::int64_t version = line.update.version;
      const bool follows = line.kind == LineKind::kUpdate ? version == before + 1 : version >= before;
      if (!follows)
        throw LogFlaw{fmt::format("server {}: version {} of slice {} comes after version {}", server, version,
                                  line.update.slice, before)};
      last_[key] = version;
      Chain& chain = chains_[key];
      if (line.kind == LineKind::kUpdate) chain[version] = line.update;
    }
  }

  std::map<int, std::size_t> death_;  // which loss it was
  std::vector<int> order_;            // by death, those that were not lost last
  std::map<std::pair<int, std::int64_t>, Chain> chains_;
  std::map<std::pair<int, std::int64_t>, std::int64_t> last_;  // versions
};

// A server that was lost may have had more than it handed over; nobody else may differ. Gives how many
// updates were undone.
std::int64_t check_agreement(const Witnesses& witnesses, std::int64_t slice, const Chain& settled) {
  std::int64_t undone = 0;
  for (const int server : witnesses.servers()) {
    if (!witnesses.knows(server, slice)) continue;
    bool parted = false;
    for (const auto& [version, update] : witnesses.chain(server, slice)) {
      const auto found = settled.find(version);
      parted = parted || found == settled.end() || found->second != update;
      undone += parted ? 1 : 0;
      if (parted && !witnesses.is_lost(server))
        throw LogFlaw{
            fmt::format("server {} has ticket {} of replica {} as version {} of slice {}, others have "
                        "another update",
                        server, update.ticket, update.replica, version, slice)};
    }
  }
  return undone;
}

// Version by ticket.
std::map<std::int64_t, std::int64_t> check_tickets(std::int64_t slice, const Chain& settled,
                                                   const LogPromise& promise) {
  std::map<std::int64_t, std::int64_t> versions;
  for (const auto& [version, update] : settled)
    if (!versions.emplace(update.ticket, version).second)
      throw LogFlaw{fmt::format("ticket {} counts twice in slice {}: as versions {} and {}", update.ticket,
                                slice, versions.at(update.ticket), version)};
  for (std::int64_t ticket = 0; promise.tickets && ticket < *promise.tickets; ++ticket)
    if (!versions.contains(ticket))
      throw LogFlaw{fmt::format("ticket {} never came to slice {}", ticket, slice)};
  if (promise.tickets && std::int64_t(versions.size()) != *promise.tickets)
    throw LogFlaw{fmt::format("slice {} had {} updates, the run {} pieces of work", slice, versions.size(),
                              *promise.tickets)};
  return versions;
}

void check_acknowledged(int replica, const LogLine& line,
                        const std::map<std::int64_t, std::map<std::int64_t, std::int64_t>>& versions) {
  for (std::size_t slice = 0; slice < line.versions.size(); ++slice) {
    const auto tickets = versions.find(std::int64_t(slice));
    const bool is_there = tickets != versions.end() && tickets->second.contains(line.update.ticket) &&
                          tickets->second.at(line.update.ticket) <= line.versions[slice];
    if (!is_there)
      throw LogFlaw{
          fmt::format("replica {} was told that ticket {} is in slice {} at version {}, and it is not",
                      replica, line.update.ticket, slice, line.versions[slice])};
  }
}

// Clocks as the log of one dealer tells them. A replica that begins has done all steps that it began before;
// others have done those before the one that they began last, and perhaps that one. Those who have nothing to
// do are not waited for, so that only who begins again without anybody coming or going meanwhile must have
// been counted.
class Clocks {
 public:
  Clocks(int server, std::int64_t staleness) : server_(server), staleness_(staleness) {}

  std::int64_t check(const std::vector<LogLine>& lines) {
    std::int64_t begins = 0;
    for (const LogLine& line : lines) {
      const int replica = line.update.replica;
      if (line.kind == LineKind::kBegin) {
        ++begins;
        begin(replica, line);
      } else if (line.kind == LineKind::kJoined) {
        began_[replica] = line.clock - 1;
        came_.insert(replica);
        claims_.clear();
      } else if (line.kind == LineKind::kLeft) {
        began_.erase(replica);
        claims_.clear();
      }
    }
    return begins;
  }

 private:
  void begin(int replica, const LogLine& line) {
    if (line.clock - line.slowest > staleness_)
      throw LogFlaw{fmt::format("server {}: replica {} began step {} when the slowest had done {}", server_,
                                replica, line.clock, line.slowest)};
    const auto before = began_.find(replica);
    // One that changes to another dealer tells with its first question what it has done since the last.
    const bool has_just_come = came_.erase(replica) > 0;
    if (before == began_.end() || line.clock < before->second + 1 ||
        (line.clock > before->second + 1 && !has_just_come))
      throw LogFlaw{
          fmt::format("server {}: replica {} began step {} out of turn", server_, replica, line.clock)};
    // It was there when others began: these counted it, or they were told a slowest that was not.
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

  int server_;
  std::int64_t staleness_;
  std::map<int, std::int64_t> began_;                // the step that each began last
  std::set<int> came_;                               // and have not begun a step
  std::map<int, std::vector<std::int64_t>> claims_;  // slowest, as others were told since then
};

std::string finding_of(const LogProof& proof, const RunLogs& logs, const LogPromise& promise) {
  std::string text = fmt::format(
      "{} servers, of which {} were lost: {} updates of {} slices follow one upon another, each ticket "
      "counts "
      "once, all copies agree, and {} pushes that were acknowledged are all there",
      logs.servers.size(), logs.lost.size(), proof.updates, proof.slices, proof.acknowledged);
  if (proof.undone > 0)
    text += fmt::format("; {} updates that only lost servers had were never acknowledged", proof.undone);
  if (promise.tickets) text += fmt::format("; all {} pieces of work were done", *promise.tickets);
  if (promise.staleness)
    text += fmt::format("; {} steps were begun at most {} ahead of the slowest", proof.begins,
                        *promise.staleness);
  return text;
}

std::string finding_of(const RowsProof& rows) {
  if (rows.tables == 0) return "";
  return fmt::format("; {} pushes of rows of {} tables, with {} rows, are in all parts, each once",
                     rows.pushes, rows.tables, rows.rows);
}

}  // namespace

LogProof check_logs(const RunLogs& logs, const LogPromise& promise) {
  LogProof proof;
  RowsProof rows;
  try {
    const Witnesses witnesses(logs);
    std::map<std::int64_t, std::map<std::int64_t, std::int64_t>> versions;
    for (const std::int64_t slice : witnesses.slices()) {
      const Chain settled = witnesses.settled(slice);
      proof.undone += check_agreement(witnesses, slice, settled);
      versions[slice] = check_tickets(slice, settled, promise);
      proof.updates += std::int64_t(settled.size());
      ++proof.slices;
    }
    for (const auto& [replica, lines] : logs.replicas)
      for (const LogLine& line : lines) {
        if (line.kind != LineKind::kAcknowledged) continue;
        check_acknowledged(replica, line, versions);
        ++proof.acknowledged;
      }
    if (promise.staleness)
      for (const auto& [server, lines] : logs.servers)
        proof.begins += Clocks(server, *promise.staleness).check(lines);
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

// Whose logs they are.
struct LogPlace {
  std::filesystem::path folder{};  // of a run, or of servers that stand
  std::string job{};               // the mark that logs begin with; empty: there is one job
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

// The server whose log of this it is.
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

// In the order in which they died. One that was lost when the job was over has all that it was to have.
void read_losses(RunLogs& logs, const std::filesystem::path& events_file) {
  for (TextLines events(events_file); events.next();) {
    const nlohmann::json event = json_or_discarded(events.line());
    if (!event.is_object()) continue;
    const nlohmann::json kind = event.value("event", nlohmann::json());
    const nlohmann::json server = event.value("server", nlohmann::json());
    if (kind == "servers" && event.value("epoch", nlohmann::json()) == 1)
      logs.lost.clear();  // a run that was resumed
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
