#include "distbelief/cluster/server_set.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

#include "distbelief/base/error.h"

namespace distbelief::cluster {
namespace {

using SetClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kServerFarewell{2};
constexpr milliseconds kLauncherPatience{200};

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
           {.launch = launch, .role = "server", .host = host, .command = options_.command(process)})});
  servers_.back().pid = servers_.back().child->pid();
  dispatch_.event("server", {{"server", launch}, {"host", host}, {"pid", servers_.back().pid}});
}

void ServerSet::hear(const comm::WorkerReport& report) {
  for (Server& server : servers_) {
    if (server.launch != report.generation) continue;
    if (report.state == "ready") {
      server.pid = report.pid;
      server.place = server::server_from_text(report.message);
      server.place.id = server.launch;
    }
    if (report.state == "filled") server.filled = std::max(server.filled, report.step);
  }
}

void ServerSet::lost(int launch) {
  for (Server& server : servers_)
    if (server.launch == launch) server.is_lost = true;
}

std::vector<std::string> ServerSet::targets() const {
  std::vector<std::string> all;
  for (const server::ServerMap::Server& server : map_.servers) all.push_back(server.target);
  return all;
}

void ServerSet::publish(const server::ServerMap& map, const char* why) {
  map_ = map;
  const std::string text = server::to_text(map_);
  for (Server& server : servers_) {
    server.is_mapped = map_.has(server.launch);
    if (server.is_mapped)
      dispatch_.order(server.launch, 0, {.kind = "map", .value = map_.epoch, .text = text});
  }
  dispatch_.event("servers", {{"epoch", map_.epoch}, {"servers", map_.servers.size()}, {"reason", why}});
}

// Its backups take over at once; another process is started in its place.
std::optional<FleetFailure> ServerSet::lose(std::size_t index) {
  const Server lost = std::move(servers_[index]);
  servers_.erase(servers_.begin() + std::ptrdiff_t(index));
  // Behind a cut link its launcher waits on.
  if (!lost.child->wait_ended(kLauncherPatience)) lost.child->signal_group(SIGKILL);
  while (!lost.child->wait_ended(milliseconds(20))) {
  }
  const int code = lost.child->exit_code();
  dispatch_.event("server lost", {{"server", lost.launch},
                                  {"host", lost.host},
                                  {"exit_code", code},
                                  {"signal", lost.child->foreign_signal()}});
  ++losses_[lost.host];
  if (!are_ready() || ++loss_count_ > options_.losses_allowed)
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
  start_one();
  return std::nullopt;
}

// One change at a time: the next map is made when servers have done what the present one asks.
void ServerSet::steer() {
  if (map_.epoch == 0) {
    std::vector<server::ServerMap::Server> known;
    for (const Server& server : servers_)
      if (!server.place.target.empty()) known.push_back(server.place);
    if (known.size() == servers_.size()) publish(server::first_map(known), "start");
    return;
  }
  const auto fills = [](const server::ServerMap::Part& part) { return part.filling != server::kNobody; };
  if (std::ranges::any_of(map_.parts, fills)) {
    for (const Server& server : servers_) {
      const bool has_to = std::ranges::any_of(
          map_.parts, [&](const auto& part) { return part.primary == server.launch && fills(part); });
      if (has_to && server.filled < map_.epoch) return;
    }
    publish(server::with_filled(map_), "filled");
    return dispatch_.say("every parameter has two copies again");
  }
  for (const Server& server : servers_)
    if (!server.is_mapped && !server.place.target.empty())
      return publish(server::with_newcomer(map_, server.place), "newcomer");
}

std::optional<FleetFailure> ServerSet::look() {
  for (std::size_t i = 0; i < servers_.size();)
    if (servers_[i].is_lost || servers_[i].child->ended()) {
      if (const auto failure = lose(i)) return failure;
    } else {
      ++i;
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
         {"state", server.place.target.empty() ? "starting"
                   : server.is_mapped          ? "serving"
                                               : "waiting"},
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
