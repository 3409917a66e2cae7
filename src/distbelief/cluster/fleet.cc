#include "distbelief/cluster/fleet.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "distbelief/base/error.h"
#include "distbelief/cluster/replica_set.h"
#include "distbelief/cluster/server_set.h"

namespace distbelief::cluster {
namespace {

using FleetClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kServerLosses = 100;  // losses per hour that a run survives under any setting

// A silent process may take half of the deadline, so that those that wait for it have as much time for its
// replacement. Nobody waits for a process that is starting, so it may take all of it.
Cohort::Patience patience_of(const FleetOptions& options) {
  return {.silence = options.deadline / 2,
          .first_word = std::max<FleetClock::duration>(options.deadline, kShortestStart)};
}

// The thread that calls run() takes all decisions; gRPC's threads only record what they receive.
class Fleet final : public comm::ControlServer::Handler {
 public:
  Fleet(const FleetOptions& options, const std::atomic<bool>& interrupted);
  ~Fleet() override { dispatch_.close(); }

  int run();
  void report(const comm::WorkerReport& report) override;
  void lost(int launch, int rank) override;
  comm::CommandReply command(const comm::Command& command) override;

 private:
  std::optional<int> look();
  void note_own_absence();
  void tell_servers();
  std::vector<std::string> targets() const {
    return servers_ ? servers_->targets() : options_.find_servers();
  }
  std::optional<int> fail(const FleetFailure& failure);
  void end_all();
  bool are_ready() const { return !servers_ || servers_->are_ready(); }
  bool is_wanted_to_stop() const { return stopping_ || interrupted_.load(); }
  nlohmann::json status() const;
  comm::CommandReply scale(const comm::Command& command);

  const FleetOptions& options_;
  const std::atomic<bool>& interrupted_;
  const FleetClock::time_point since_ = FleetClock::now();

  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  Dispatch dispatch_;                 // closed before other members go, because its threads use them
  std::optional<ServerSet> servers_;  // empty: standing servers are used
  ReplicaSet replicas_;
  bool stopping_ = false;
  bool told_to_stop_ = false;
  std::int64_t told_epoch_ = 0;  // epoch of the map whose servers the replicas know
  FleetClock::time_point last_look_ = FleetClock::now();
};

Fleet::Fleet(const FleetOptions& options, const std::atomic<bool>& interrupted)
    : options_(options),
      interrupted_(interrupted),
      dispatch_({.run_dir = options.run_dir,
                 .place = options.place,
                 .launch = options.launch,
                 .hosts = options.hosts,
                 .address = options.address,
                 .certs = options.certs,
                 .silence = options.silence}),
      replicas_({.places = options.replicas,
                 .least = options.least,
                 .most = options.most,
                 .groups = options.groups,
                 .command = options.replica_command,
                 .policy = options.policy,
                 .stops_together = options.stops_together,
                 .spares = options.spares,
                 .resume = options.resume,
                 .patience = patience_of(options)},
                dispatch_) {
  if (options.find_servers) return;
  servers_.emplace(
      ServerSet::Options{.servers = options.servers,
                         .hosts = options.hosts,
                         .command = options.server_command,
                         .run_dir = options.run_dir,
                         .losses_allowed = kServerLosses + options.policy.restarts * options.servers,
                         .patience = patience_of(options)},
      dispatch_);
}

void Fleet::report(const comm::WorkerReport& report) {
  const std::lock_guard lock(mutex_);
  try {
    if (servers_) servers_->hear(report);
    replicas_.hear(report);
  } catch (const Error& error) {
    dispatch_.say(error.what());
  }
  changed_.notify_one();
}

void Fleet::lost(int launch, int rank) {
  const std::lock_guard lock(mutex_);
  if (servers_) servers_->lost(launch);
  replicas_.lost(launch, rank);
  changed_.notify_one();
}

std::optional<int> Fleet::fail(const FleetFailure& failure) {
  dispatch_.say(failure.why);
  return failure.code;
}

// The whole supervisor was stopped, with or without its processes.
void Fleet::note_own_absence() {
  const FleetClock::time_point now = FleetClock::now();
  const FleetClock::duration absence = now - std::exchange(last_look_, now);
  if (absence < kOwnAbsence) return;
  if (servers_) servers_->excuse(absence);
  replicas_.excuse(absence);
}

void Fleet::tell_servers() { replicas_.tell_servers(targets()); }

std::optional<int> Fleet::look() {
  note_own_absence();
  if (servers_)
    if (const auto failure = servers_->look()) return fail(*failure);
  if (!are_ready()) {
    if (interrupted_.load()) return 130;
    if (FleetClock::now() - since_ > patience_of(options_).first_word)
      return fail({.why = "the parameter servers did not get ready in time; see their logs"});
    return std::nullopt;
  }
  if (is_wanted_to_stop() && !std::exchange(told_to_stop_, true)) replicas_.stop();
  if (const auto failure = replicas_.look([this] { return targets(); })) return fail(*failure);
  if (servers_ && std::exchange(told_epoch_, servers_->epoch()) != servers_->epoch()) tell_servers();
  if (options_.replicas.empty()) {
    if (interrupted_.load()) return 130;
    return stopping_ ? std::optional(0) : std::nullopt;
  }
  if (!replicas_.are_all_over()) return std::nullopt;
  return is_wanted_to_stop() ? 130 : 0;
}

nlohmann::json Fleet::status() const {
  const nlohmann::json workers = replicas_.workers();
  return {{"run", options_.run_dir.string()},
          {"state", !are_ready()                ? "starting servers"
                    : is_wanted_to_stop()       ? "stopping"
                    : replicas_.is_paused()     ? "paused"
                    : options_.replicas.empty() ? "serving"
                    : !workers.empty()          ? "training"
                                                : "starting workers"},
          {"generation", 1},
          {"recoveries", replicas_.recoveries()},
          {"workers_wanted", replicas_.wanted()},
          {"threads", 1},
          {"hosts_absent", ""},
          {"standby", "none"},
          {"step", replicas_.step()},
          {"epoch", replicas_.epoch()},
          {"loss", replicas_.loss()},
          {"samples_per_second", replicas_.samples_per_second()},
          {"snapshot_step", -1},
          {"checkpoint_step", options_.newest_checkpoint ? options_.newest_checkpoint() : -1},
          {"servers", servers_ ? servers_->status() : nlohmann::json::array()},
          {"workers", workers}};
}

comm::CommandReply Fleet::command(const comm::Command& command) {
  const std::lock_guard lock(mutex_);
  if (command.name == "status") return {true, status().dump()};
  changed_.notify_one();
  if (command.name == "scale servers")
    return servers_ ? servers_->scale(command.value)
                    : comm::CommandReply{false, "the servers are not this run's: scale the set that it uses"};
  if (command.name == "scale") return scale(command);
  const auto pace = command.name == "pause" ? ReplicaSet::Pace::kPause : ReplicaSet::Pace::kGoOn;
  const bool is_pace = command.name == "pause" || command.name == "continue";
  // All standing servers may have been replaced meanwhile.
  if (!servers_ && command.name == "continue") tell_servers();
  if (is_pace && command.text == "worker") return replicas_.set_pace_of(command.value, pace);
  if (!is_pace && command.name != "stop")
    return {false, "a run with parameter servers does not know the command '" + command.name + "'"};
  if (is_pace)
    replicas_.set_pace(pace);
  else
    stopping_ = true;
  dispatch_.event(command.name, nlohmann::json::object());
  return {true, command.name == "stop"    ? "ending: it saves first"
                : command.name == "pause" ? "pausing"
                                          : "going on"};
}

comm::CommandReply Fleet::scale(const comm::Command& command) {
  if (command.value == 0 || command.text != "0")
    return {false,
            "each worker of a replica with parameter servers has one thread; scale to a number of "
            "replicas, or --servers"};
  return replicas_.scale(command.value);
}

// Asks the processes to end, then forces them. Call without the lock, so that the workers' last reports get
// through.
void Fleet::end_all() {
  replicas_.stop();
  end_together(replicas_.children());
  if (servers_) servers_->end();
}

int Fleet::run() {
  std::optional<int> code;
  dispatch_.listen(*this);
  {
    std::unique_lock lock(mutex_);
    if (!options_.replicas.empty()) dispatch_.event("served", {{"first_step", options_.first_step}});
    if (servers_) servers_->start();
    while (!(code = look())) changed_.wait_for(lock, milliseconds(20));
  }
  end_all();
  dispatch_.event("ended", {{"exit_code", *code}, {"recoveries", replicas_.recoveries()}});
  replicas_.clear();
  dispatch_.close();
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
