#include "distbelief/cluster/fleet.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "distbelief/base/error.h"
#include "distbelief/cluster/child.h"
#include "distbelief/cluster/cohort.h"
#include "distbelief/comm/rpc/control_server.h"
#include "distbelief/report/metrics.h"
#include "distbelief/server/server_map.h"

namespace distbelief::cluster {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kServerLosses = 100;  // that a run survives, however it is set

// What fleets decide is decided on the thread that calls run(); gRPC's threads only note what they hear.
class Fleet final : public comm::ControlServer::Handler {
 public:
  Fleet(const FleetOptions& options, const std::atomic<bool>& interrupted)
      : options_(options),
        interrupted_(interrupted),
        events_(options.run_dir / "events.jsonl"),
        control_("unix:" + options.place.socket.string()),
        replicas_(std::size_t(options.replicas)) {
    server_.emplace(comm::ControlAddress{.target = control_}, *this);
  }

  int run();
  void report(const comm::WorkerReport& report) override;
  void lost(int launch, int rank) override;
  comm::CommandReply command(const comm::Command& command) override;

 private:
  struct Server {
    int launch = 0;  // its id in maps
    std::unique_ptr<Child> child;
    std::string target;  // once it listens
    bool is_mapped = false;
    std::int64_t filled = 0;  // epoch of the map whose newcomers have all of this server's parts
  };
  struct Replica {
    std::unique_ptr<Cohort> cohort;  // none: it is to be started, has done its work, or was given up
    bool told_to_go = false;
    bool done = false;
    bool given_up = false;
    std::vector<Loss> losses;
    std::optional<Clock::time_point> lost_at;
    Clock::time_point not_before{};
  };

  void start_server();
  bool are_ready() const;
  void publish(const server::ServerMap& map, const char* why);
  void lose_server(std::size_t index);
  void steer_servers();
  std::optional<int> look();
  void look_at_servers();
  void look_at(std::size_t index);
  void end_of(std::size_t index);
  void start(std::size_t index);
  void note_recovery(std::size_t index);
  void order(const Replica& replica, const char* kind);
  void order_all(const char* kind);
  void end_all();
  bool is_wanted_to_stop() const { return stopping_ || interrupted_.load(); }
  nlohmann::json status() const;
  void say(const std::string& line) const {
    std::fflush(stdout);
    fmt::print(stderr, "distbelief: {}\n", line);
  }
  void event(const std::string& kind, nlohmann::json details);

  const FleetOptions& options_;
  const std::atomic<bool>& interrupted_;
  report::MetricsLog events_;
  std::string control_;

  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  int launches_ = 0;
  std::vector<Server> servers_;
  server::ServerMap map_;  // epoch 0: none yet
  int server_losses_ = 0;
  std::vector<Replica> replicas_;
  bool stopping_ = false;
  bool paused_ = false;
  bool told_to_stop_ = false;
  std::optional<std::string> failure_;
  int failure_code_ = 1;
  std::optional<comm::ControlServer> server_;  // last: its threads use all of this
};

void Fleet::event(const std::string& kind, nlohmann::json details) {
  try {
    events_.append(report::event_line(kind, std::move(details)));
  } catch (const Error& error) {  // a full disk does not end a run
    say(error.what());
  }
}

void Fleet::report(const comm::WorkerReport& report) {
  const std::lock_guard lock(mutex_);
  for (Server& server : servers_) {
    if (server.launch != report.generation) continue;
    if (report.state == "ready") server.target = report.message;
    if (report.state == "filled") server.filled = std::max(server.filled, report.step);
  }
  for (Replica& replica : replicas_)
    if (replica.cohort && replica.cohort->id() == report.generation) {
      replica.cohort->hear(report, Clock::now());
      if (report.state == "ended") replica.cohort->part_with(report.rank);
    }
  changed_.notify_one();
}

void Fleet::lost(int launch, int rank) {
  const std::lock_guard lock(mutex_);
  for (Replica& replica : replicas_)
    if (replica.cohort && replica.cohort->id() == launch) {
      replica.cohort->part_with(rank);
      replica.cohort->lose(rank, Clock::now());
    }
  changed_.notify_one();
}

void Fleet::start_server() {
  const int launch = ++launches_;
  servers_.push_back(
      {.launch = launch,
       .child = std::make_unique<Child>(Child::Options{
           .command = options_.server_command({.index = 0, .launch = launch, .control = control_}),
           .death_signal = SIGKILL}),
       .target = {}});
  event("server", {{"server", launch}, {"pid", servers_.back().child->pid()}});
}

// All that were started at first listen, and know what they have.
bool Fleet::are_ready() const { return map_.epoch > 0; }

void Fleet::publish(const server::ServerMap& map, const char* why) {
  map_ = map;
  const std::string text = server::to_text(map_);
  for (Server& server : servers_) {
    server.is_mapped = map_.has(server.launch);
    if (server.is_mapped)
      server_->order(server.launch, 0, {.kind = "map", .value = map_.epoch, .text = text});
  }
  event("servers", {{"epoch", map_.epoch}, {"servers", map_.servers.size()}, {"reason", why}});
}

// Its backups take over at once; another process is started in its place.
void Fleet::lose_server(std::size_t index) {
  const Server lost = std::move(servers_[index]);
  servers_.erase(servers_.begin() + std::ptrdiff_t(index));
  const int code = lost.child->exit_code();
  event("server lost",
        {{"server", lost.launch}, {"exit_code", code}, {"signal", lost.child->foreign_signal()}});
  ++server_losses_;
  if (!are_ready() || server_losses_ > kServerLosses + options_.policy.restarts * options_.servers) {
    failure_ = fmt::format("parameter server {} ended (exit code {}); its log: {}/logs/server-{}.log",
                           lost.launch, code, options_.run_dir.string(), lost.launch);
    failure_code_ = code == 2 ? 2 : 1;
    return;
  }
  const server::ServerMap next = server::without_server(map_, lost.launch);
  if (lost.is_mapped && !server::is_whole(next)) {
    failure_ = fmt::format(
        "parameter server {} ended (exit code {}), and with it the only copy of parameters; "
        "go on from the last checkpoint with: distbelief resume {}",
        lost.launch, code, options_.run_dir.string());
    return;
  }
  if (lost.is_mapped) publish(next, "lost");
  say(fmt::format("parameter server {} lost; {}", lost.launch,
                  lost.is_mapped ? "its backups have taken over" : "it had nothing yet"));
  start_server();
}

// One change at a time: the next map is made when servers have done what the present one asks.
void Fleet::steer_servers() {
  if (map_.epoch == 0) {
    std::vector<server::ServerMap::Server> known;
    for (const Server& server : servers_)
      if (!server.target.empty()) known.push_back({.id = server.launch, .target = server.target});
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
    return say("every parameter has two copies again");
  }
  for (const Server& server : servers_)
    if (!server.is_mapped && !server.target.empty())
      return publish(server::with_newcomer(map_, {.id = server.launch, .target = server.target}), "newcomer");
}

void Fleet::look_at_servers() {
  for (std::size_t i = 0; i < servers_.size() && !failure_;)
    if (servers_[i].child->ended())
      lose_server(i);
    else
      ++i;
  if (!failure_) steer_servers();
}

void Fleet::start(std::size_t index) {
  Replica& replica = replicas_[index];
  LaunchOptions launch = options_.launch;
  launch.workers = options_.workers_per_replica;
  FleetOptions::Process process{.index = int(index), .launch = ++launches_, .control = control_};
  // Launchers that make and remove one folder at the same time get in each other's way.
  launch.session_folder = options_.place.launcher / std::to_string(process.launch);
  for (const server::ServerMap::Server& server : map_.servers) process.servers.push_back(server.target);
  launch.command = options_.replica_command(process);
  const Placement placement{.hosts = {}, .workers = launch.workers};
  replica.cohort = std::make_unique<Cohort>(
      process.launch, placement, 1,
      std::make_unique<Child>(Child::Options{.command = launch_command(launch), .death_signal = SIGUSR1}));
  replica.told_to_go = false;
}

void Fleet::order(const Replica& replica, const char* kind) {
  for (int rank = 0; replica.cohort && rank < replica.cohort->workers(); ++rank)
    server_->order(replica.cohort->id(), rank, {.kind = kind, .value = 0, .text = {}});
}

void Fleet::order_all(const char* kind) {
  for (const Replica& replica : replicas_) order(replica, kind);
}

// The cohort's launcher has ended.
void Fleet::end_of(std::size_t index) {
  Replica& replica = replicas_[index];
  const int code = replica.cohort->child().exit_code();
  if (code == 0 || (code == 130 && is_wanted_to_stop())) {
    replica.done = true;
    replica.cohort.reset();
    return;
  }
  if (!replica.cohort->is_broken()) replica.cohort->lose(-1, Clock::now());
  const Loss loss = replica.cohort->loss();
  replica.losses.push_back(loss);
  const RecoveryDecision decision = decide_recovery(options_.policy, replica.losses);
  if (!replica.lost_at) replica.lost_at = replica.cohort->lost_at();
  replica.cohort->kill_workers();
  replica.cohort.reset();
  event("replica lost", {{"replica", index},
                         {"signal", loss.signal},
                         {"exit_code", loss.exit_code},
                         {"step", loss.step},
                         {"reason", loss.reason},
                         {"decision", decision.restart ? "restart" : "give up"},
                         {"why", decision.reason}});
  replica.not_before = Clock::now() + decision.delay;
  if (decision.restart) {
    say(fmt::format("replica {}: {}; starting it again", index, loss.describe()));
    return;
  }
  replica.given_up = true;
  say(fmt::format("replica {}: {}; given up: {}", index, loss.describe(), decision.reason));
  if (index == 0 || options_.stops_together || loss.exit_code == 2) {
    failure_ = fmt::format("replica {} was given up", index);
    failure_code_ = loss.exit_code == 2 ? 2 : 1;
  }
}

void Fleet::note_recovery(std::size_t index) {
  Replica& replica = replicas_[index];
  if (!replica.lost_at || replica.cohort->first_step() < 0) return;
  const double seconds = std::chrono::duration<double>(Clock::now() - *replica.lost_at).count();
  say(fmt::format("replica {} is back after {:.1f} s", index, seconds));
  event("replica recovered", {{"replica", index}, {"seconds", seconds}});
  replica.lost_at.reset();
}

void Fleet::look_at(std::size_t index) {
  Replica& replica = replicas_[index];
  if (replica.done || replica.given_up) return;
  if (!replica.cohort) {
    if (is_wanted_to_stop())
      replica.done = true;
    else if (Clock::now() >= replica.not_before)
      start(index);
    return;
  }
  if (replica.cohort->child().ended()) return end_of(index);
  if (replica.cohort->is_broken()) {
    if (Clock::now() - replica.cohort->lost_at() > std::chrono::seconds(1))
      replica.cohort->child().signal_group(SIGKILL);
    return;
  }
  if (!replica.told_to_go && replica.cohort->is_ready()) {
    replica.told_to_go = true;
    const nlohmann::json text = {{"generation", int(replica.losses.size()) + 1},
                                 {"recoveries", replica.losses.size()},
                                 {"fence", 0},
                                 {"resume", options_.resume && replica.losses.empty()}};
    event("replica", {{"replica", index}, {"launch", replica.cohort->id()}});
    for (int rank = 0; rank < replica.cohort->workers(); ++rank)
      server_->order(replica.cohort->id(), rank, {.kind = "go", .value = 0, .text = text.dump()});
    if (paused_) order(replica, "pause");
  }
  note_recovery(index);
}

std::optional<int> Fleet::look() {
  look_at_servers();
  if (failure_) return failure_code_;
  if (!are_ready()) return std::nullopt;
  if (is_wanted_to_stop() && !std::exchange(told_to_stop_, true)) order_all("stop");
  for (std::size_t i = 0; i < replicas_.size(); ++i) look_at(i);
  if (failure_) return failure_code_;
  const bool all_over = std::ranges::all_of(replicas_, [](const Replica& r) { return r.done || r.given_up; });
  if (!all_over) return std::nullopt;
  return is_wanted_to_stop() ? 130 : 0;
}

nlohmann::json Fleet::status() const {
  nlohmann::json workers = nlohmann::json::array();
  std::int64_t step = -1;
  int recoveries = 0;
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    recoveries += int(replicas_[i].losses.size());
    if (!replicas_[i].cohort) continue;
    step = std::max(step, replicas_[i].cohort->step());
    for (const auto& [rank, report] : replicas_[i].cohort->reports())
      workers.push_back({{"replica", i},
                         {"rank", rank},
                         {"pid", report.pid},
                         {"host", report.host},
                         {"state", report.state},
                         {"phase", report.phase},
                         {"step", report.step},
                         {"lanes", report.lanes},
                         {"step_seconds", report.step_seconds},
                         {"busy_seconds", report.busy_seconds},
                         {"straggler", false},
                         {"slowness", 1.0}});
  }
  nlohmann::json servers = nlohmann::json::array();
  for (const Server& server : servers_)
    servers.push_back(
        {{"server", server.launch},
         {"pid", server.child->pid()},
         {"state", server.target.empty() ? "starting"
                   : server.is_mapped    ? "serving"
                                         : "waiting"},
         {"primary", std::ranges::count(map_.parts, server.launch, &server::ServerMap::Part::primary)},
         {"backup", std::ranges::count(map_.parts, server.launch, &server::ServerMap::Part::backup)}});
  const bool has_first = !workers.empty();
  return {{"run", options_.run_dir.string()},
          {"state", !are_ready()          ? "starting servers"
                    : is_wanted_to_stop() ? "stopping"
                    : paused_             ? "paused"
                    : has_first           ? "training"
                                          : "starting workers"},
          {"generation", 1},
          {"recoveries", recoveries},
          {"workers_wanted", options_.replicas},
          {"threads", 1},
          {"hosts_absent", ""},
          {"standby", "none"},
          {"step", step},
          {"epoch", 0},
          {"loss", replicas_[0].cohort && replicas_[0].cohort->reports().contains(0)
                       ? replicas_[0].cohort->reports().at(0).loss
                       : 0.0},
          {"samples_per_second", 0},
          {"snapshot_step", -1},
          {"checkpoint_step", -1},
          {"servers", servers},
          {"workers", workers}};
}

comm::CommandReply Fleet::command(const comm::Command& command) {
  const std::lock_guard lock(mutex_);
  if (command.name == "status") return {true, status().dump()};
  if (command.name == "stop") {
    stopping_ = true;
  } else if (command.name == "pause" || command.name == "continue") {
    paused_ = command.name == "pause";
    order_all(command.name.c_str());
  } else {
    return {false, fmt::format("a run with parameter servers does not know the command '{}'", command.name)};
  }
  event(command.name, nlohmann::json::object());
  changed_.notify_one();
  return {true, "done"};
}

// Asks first, then presses; without the lock, for the workers' last reports must get through.
void Fleet::end_all() {
  order_all("stop");
  std::vector<Child*> children;
  for (Replica& replica : replicas_)
    if (replica.cohort) children.push_back(&replica.cohort->child());
  std::vector<Farewell> farewells(children.size());
  for (bool all_gone = false; !all_gone;) {
    all_gone = true;
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (children[i]->wait_ended(milliseconds(5))) continue;
      all_gone = false;
      farewells[i].press(*children[i]);
    }
  }
  for (const Server& server : servers_)
    server_->order(server.launch, 0, {.kind = "stop", .value = 0, .text = {}});
  const auto give_up = Clock::now() + std::chrono::seconds(2);
  for (Server& server : servers_) {
    while (!server.child->wait_ended(milliseconds(20)) && Clock::now() < give_up) {
    }
    if (!server.child->ended()) server.child->signal_group(SIGKILL);
    while (!server.child->wait_ended(milliseconds(20))) {
    }
  }
}

int Fleet::run() {
  std::optional<int> code;
  {
    std::unique_lock lock(mutex_);
    for (int i = 0; i < options_.servers; ++i) start_server();
    const auto since = Clock::now();
    while (!(code = look())) {
      if (interrupted_.load() && !are_ready()) code = 130;
      if (code) break;
      if (!are_ready() && Clock::now() - since > options_.deadline)
        failure_ = "the parameter servers did not get ready in time; see their logs";
      changed_.wait_for(lock, milliseconds(20));
    }
    if (failure_) say(*failure_);
  }
  end_all();
  std::int64_t recoveries = 0;
  for (const Replica& replica : replicas_) recoveries += std::int64_t(replica.losses.size());
  event("ended", {{"exit_code", *code}, {"recoveries", recoveries}});
  replicas_.clear();
  server_->close();
  return *code;
}

}  // namespace

int supervise_fleet(const FleetOptions& options, const std::atomic<bool>& interrupted) {
  prepare_launcher();
  clear_abandoned(options.place);
  clear_place(options.place);
  make_place(options.place);
  struct Clearing {
    const RunPlace& place;
    ~Clearing() { clear_place(place); }
  } clearing{options.place};
  return Fleet(options, interrupted).run();
}

}  // namespace distbelief::cluster
