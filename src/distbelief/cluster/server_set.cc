#include "distbelief/cluster/server_set.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <set>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/base/json_text.h"
#include "distbelief/server/client/map_plan.h"

namespace distbelief::cluster {
namespace {

using SetClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kServerFarewell{2};
constexpr milliseconds kLauncherPatience{200};
constexpr std::chrono::hours kLossesCount{1};
constexpr int kMostServers = server::kParts;  // so that each has a part

// The role of a server for the first part, whose primary deals out tickets; for a small job this part is
// everything.
const char* role_in(const server::ServerMap& map, int server) {
  if (map.parts.empty()) return "none";
  return map.desk().primary == server ? "primary" : map.desk().backup == server ? "backup" : "none";
}

}  // namespace

ServerSet::ServerSet(Options options, Dispatch& dispatch)
    : options_(std::move(options)),
      dispatch_(dispatch) {}

void ServerSet::start() {
  for (int i = 0; i < options_.servers; ++i) start_one();
}

std::string ServerSet::next_host() const {
  std::vector<ServerHost> hosts;
  for (const HostSlots& host : options_.hosts) {
    const auto lost = losses_.find(host.host);
    hosts.push_back({.name = host.host,
                     .servers = int(std::ranges::count(servers_, host.host, &Server::host)),
                     .losses = lost == losses_.end() ? 0 : lost->second});
  }
  return host_for_server(hosts);
}

void ServerSet::start_one() {
  const int launch = dispatch_.next_launch();
  const std::string host = next_host();
  FleetProcess process{.launch = launch, .control = dispatch_.control()};
  if (!host.empty()) process.address = dispatch_.address_of(host);
  servers_.push_back(
      {.launch = launch,
       .host = host,
       .child = dispatch_.start_process(
           {.launch = launch, .role = "server", .host = host, .command = options_.command(process)}),
       .heard = SetClock::now()});
  servers_.back().pid = servers_.back().child->pid();
  dispatch_.event("server", {{"server", launch}, {"host", host}, {"pid", servers_.back().pid}});
}

void ServerSet::hear(const comm::WorkerReport& report) {
  for (Server& server : servers_) {
    if (server.launch != report.generation) continue;
    server.heard = SetClock::now();
    if (report.state == "serving" && !report.message.empty())
      server.said = parse_json(report.message, "the report of a server");
    if (report.state == "ready") {
      server.pid = report.pid;
      server.place = server::server_from_text(report.message);
      server.place.id = server.launch;
    }
    if (report.state == "settled") server.settled = std::max(server.settled, report.step);
    if (report.state == "apart") take_apart(server, report);
  }
}

// A server reports that a backup does not accept updates. The first report wins, because the other server may
// report the same of this one. A report under an older map may concern a part that has moved since, so it is
// ignored.
void ServerSet::take_apart(const Server& speaker, const comm::WorkerReport& report) {
  if (speaker.is_lost || report.step != map_.epoch) return;
  for (Server& other : servers_)
    if (std::to_string(other.launch) == report.message && other.is_mapped && !other.is_lost) {
      dispatch_.event("server apart", {{"server", other.launch}, {"said_by", speaker.launch}});
      other.is_lost = true;
    }
}

void ServerSet::lost(int launch) {
  for (Server& server : servers_)
    if (server.launch == launch) server.is_lost = true;
}

void ServerSet::excuse(SetClock::duration absence) {
  for (Server& server : servers_) server.heard += absence;
}

// Marks servers that hang or were stopped. They answer nobody, so their primaries and replicas wait for them,
// or, before they listen, everybody waits for the second copy.
void ServerSet::look_for_silence() {
  for (Server& server : servers_) {
    const SetClock::duration silence = SetClock::now() - server.heard;
    const bool listens = !server.place.target.empty();
    if (server.is_lost || silence <= (listens ? options_.patience.silence : options_.patience.first_word))
      continue;
    dispatch_.event("server silent",
                    {{"server", server.launch}, {"seconds", std::chrono::duration<double>(silence).count()}});
    server.is_lost = true;
  }
}

// More losses than this mean a permanent fault that also hits replacements.
bool ServerSet::is_lossy() {
  loss_times_.push_back(SetClock::now());
  while (loss_times_.front() < SetClock::now() - kLossesCount) loss_times_.pop_front();
  return int(loss_times_.size()) > options_.losses_allowed;
}

std::vector<std::string> ServerSet::targets() const {
  std::vector<std::string> all;
  for (const server::ServerMap::Server& server : map_.servers) all.push_back(server.target);
  return all;
}

void ServerSet::publish(const server::ServerMap& map, const std::string& why) {
  map_ = map;
  const std::string text = server::to_text(map_);
  for (Server& server : servers_) {
    server.is_mapped = map_.has(server.launch);
    if (server.is_mapped)
      dispatch_.order(server.launch, 0, {.kind = "map", .value = map_.epoch, .text = text});
  }
  dispatch_.event("servers", {{"epoch", map_.epoch},
                              {"servers", map_.servers.size()},
                              {"reason", why},
                              {"without_backup", std::ranges::count(map_.parts, server::kNobody,
                                                                    &server::ServerMap::Part::backup)}});
}

comm::CommandReply ServerSet::scale(std::int64_t servers) {
  if (!are_ready()) return {false, "the servers are just starting; ask again in a moment"};
  if (servers < 1 || servers > kMostServers)
    return {false, fmt::format("a run has 1 to {} parameter servers, found {}", kMostServers, servers)};
  options_.servers = int(servers);
  dispatch_.event("scale servers", {{"servers", servers}});
  return {true, fmt::format("{} parameter server{}", servers, servers == 1 ? "" : "s")};
}

// Starts or ends servers until the wanted number stays. The newest leave first, because replicas have known
// the others longest.
void ServerSet::keep_count() {
  int staying = int(std::ranges::count(servers_, false, &Server::is_leaving));
  for (; staying < options_.servers; ++staying) start_one();
  for (auto server = servers_.rbegin(); server != servers_.rend() && staying > options_.servers; ++server)
    if (!std::exchange(server->is_leaving, true)) --staying;
}

// Removes a server. Its backups take over at once; another process is started in its place.
std::optional<FleetFailure> ServerSet::lose(std::size_t index) {
  const Server lost = std::move(servers_[index]);
  servers_.erase(servers_.begin() + std::ptrdiff_t(index));
  // Behind a cut link its launcher would keep waiting.
  if (!lost.child->wait_ended(kLauncherPatience)) lost.child->signal_group(SIGKILL);
  while (!lost.child->wait_ended(milliseconds(20))) {
  }
  const int code = lost.child->exit_code();
  dispatch_.event("server lost", {{"server", lost.launch},
                                  {"host", lost.host},
                                  {"exit_code", code},
                                  {"signal", lost.child->foreign_signal()}});
  ++losses_[lost.host];
  if (is_lossy() || !are_ready())
    return FleetFailure{
        fmt::format("parameter server {} ended (exit code {}); its log: {}/logs/server-{}.log", lost.launch,
                    code, options_.run_dir.string(), lost.launch),
        code == 2 ? 2 : 1};
  const server::ServerMap next = server::without_server(map_, lost.launch);
  if (lost.is_mapped && !server::is_whole(next))
    return FleetFailure{
        fmt::format("parameter server {} ended (exit code {}), and with it the only copy of "
                    "parameters; go on from the last checkpoint with: distbelief resume {}",
                    lost.launch, code, options_.run_dir.string())};
  if (lost.is_mapped) publish(next, "lost");
  dispatch_.say(fmt::format("parameter server {} lost; {}", lost.launch,
                            lost.is_mapped ? "its backups have taken over" : "it had nothing yet"));
  lacks_copies_ = lacks_copies_ || lost.is_mapped;
  return std::nullopt;
}

// Makes one change at a time: the next map follows when the servers have carried out the current one.
std::optional<server::ServerMap> ServerSet::next_map(std::string& why) const {
  if (server::is_changing(map_)) {
    for (const Server& server : servers_) {
      const bool has_to = std::ranges::any_of(map_.parts, [&](const server::ServerMap::Part& part) {
        return part.primary == server.launch && server::is_changing(part);
      });
      if (has_to && server.settled < map_.epoch) return std::nullopt;
    }
    why = "settled";
    return server::with_settled(map_);
  }
  server::ServerMap map = map_;
  std::set<int> leaving;
  for (const Server& server : servers_) {
    if (server.is_leaving) leaving.insert(server.launch);
    if (server.is_mapped || server.is_leaving || server.place.target.empty()) continue;
    map = server::with_newcomer(map, server.place);
    why = "newcomer";
  }
  if (const std::optional<server::MapStep> step = server::next_step(map, leaving)) {
    why = step->reason;
    return step->map;
  }
  return why.empty() ? std::nullopt : std::optional(map);
}

void ServerSet::steer() {
  if (!are_ready()) {
    std::vector<server::ServerMap::Server> known;
    for (const Server& server : servers_)
      if (!server.place.target.empty()) known.push_back(server.place);
    if (known.size() == servers_.size()) publish(server::first_map(known), "start");
    return;
  }
  keep_count();
  std::string why;
  if (const std::optional<server::ServerMap> next = next_map(why)) publish(*next, why);
  const bool has_all = std::ranges::none_of(
      map_.parts, [](const server::ServerMap::Part& part) { return part.backup == server::kNobody; });
  if (lacks_copies_ && has_all) dispatch_.say("every parameter has two copies again");
  lacks_copies_ = lacks_copies_ && !has_all;
  for (const Server& server : servers_)
    if (has_left(server)) dispatch_.order(server.launch, 0, {.kind = "stop", .value = 0, .text = {}});
}

std::optional<FleetFailure> ServerSet::look() {
  look_for_silence();
  for (std::size_t i = 0; i < servers_.size();) {
    const bool is_gone = servers_[i].is_lost || servers_[i].child->ended();
    if (is_gone && has_left(servers_[i])) {
      dispatch_.event("server left", {{"server", servers_[i].launch}});
      servers_.erase(servers_.begin() + std::ptrdiff_t(i));
    } else if (is_gone) {
      if (const auto failure = lose(i)) return failure;
    } else {
      ++i;
    }
  }
  steer();
  return std::nullopt;
}

nlohmann::json ServerSet::status() const {
  nlohmann::json servers = nlohmann::json::array();
  for (const Server& server : servers_)
    servers.push_back(
        {{"server", server.launch},
         {"pid", server.pid},
         {"host", server.place.host},
         {"target", server.place.target},
         {"state", server.place.target.empty() ? "starting"
                   : server.is_leaving         ? "leaving"
                   : server.is_mapped          ? "serving"
                                               : "waiting"},
         {"first_part", role_in(map_, server.launch)},
         {"refused", server.said.value("refused", std::int64_t{0})},
         {"dropped", server.said.value("dropped", std::int64_t{0})},
         {"turned_away", server.said.value("turned_away", std::int64_t{0})},
         {"jobs", server.said.value("jobs", std::int64_t{0})},
         {"bytes", server.said.value("bytes", std::int64_t{0})},
         {"primary", std::ranges::count(map_.parts, server.launch, &server::ServerMap::Part::primary)},
         {"backup", std::ranges::count(map_.parts, server.launch, &server::ServerMap::Part::backup)}});
  return servers;
}

void ServerSet::end() {
  for (const Server& server : servers_)
    dispatch_.order(server.launch, 0, {.kind = "stop", .value = 0, .text = {}});
  const auto give_up = SetClock::now() + kServerFarewell;
  for (Server& server : servers_) {
    while (!server.child->wait_ended(milliseconds(20)) && SetClock::now() < give_up) {
    }
    if (!server.child->ended()) server.child->signal_group(SIGKILL);
    while (!server.child->wait_ended(milliseconds(20))) {
    }
  }
}

}  // namespace distbelief::cluster
