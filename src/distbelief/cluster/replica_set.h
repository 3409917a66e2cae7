#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "distbelief/cluster/cohort.h"
#include "distbelief/cluster/server_set.h"

namespace distbelief::cluster {

// The replicas of a run with parameter servers, each a world of its own: starts them, and restarts lost ones.
// The fleet's lock protects it.
class ReplicaSet {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    std::vector<ReplicaPlace> places{};
    std::int64_t least = 1, most = 0;  // range that scale() accepts; 0: no limit
    RankGroups groups{};
    std::function<std::vector<std::string>(const FleetProcess&)> command{};
    RecoveryPolicy policy{};
    bool stops_together = false;  // no replica can do without another (sync, decomposed) ...
    int spares = 0;               // ... except for this many (sync)
    bool resume = false;
    // A replica is lost when one of its workers is silent for longer.
    Cohort::Patience patience{.silence = std::chrono::minutes(1), .first_word = std::chrono::minutes(2)};
  };
  ReplicaSet(Options options, Dispatch& dispatch);

  void hear(const comm::WorkerReport& report);
  void lost(int launch, int rank);
  // Ignores a silence in which the supervisor itself did not run.
  void excuse(Clock::duration absence);
  // Starts and replaces replicas as needed; `servers` returns the current server addresses for a replica that
  // is started.
  using FindServers = std::function<std::vector<std::string>()>;
  std::optional<FleetFailure> look(const FindServers& servers);
  bool are_all_over() const;

  void stop();  // all save and end, and no more are started
  enum class Pace { kGoOn, kPause };
  void set_pace(Pace pace);
  bool is_paused() const { return pace_ == Pace::kPause; }
  // Sends the current server addresses; a replica that has not asked for a while may know none of them.
  void tell_servers(const std::vector<std::string>& targets);
  // Pauses or continues one replica. A replica that takes its own steps gets an order; a spare one of a run
  // that stops together is ended, and restarted to continue.
  comm::CommandReply set_pace_of(std::int64_t replica, Pace pace);
  // Changes the number of replicas.
  comm::CommandReply scale(std::int64_t replicas);

  nlohmann::json workers() const;     // last report of each
  std::int64_t step() const;          // of the most advanced replica; -1: none
  double loss() const;                // of the first replica
  std::int64_t epoch() const;         // of the first replica's step
  double samples_per_second() const;  // of all replicas
  int recoveries() const;
  int size() const { return int(replicas_.size()); }
  int wanted() const;  // replicas that are not leaving
  // Launchers of the running replicas.
  std::vector<Child*> children();
  void clear() { replicas_.clear(); }

 private:
  struct Replica {
    ReplicaPlace place{};
    std::unique_ptr<Cohort> cohort{};  // null: it is to be started, has finished, or was given up
    bool told_to_go = false;
    bool is_leaving = false;  // no longer wanted
    bool rests = false;       // paused while the others continue
    int pauses = 0;           // times it was ended for a pause
    bool done = false;
    bool given_up = false;
    std::vector<Loss> losses{};
    std::optional<Clock::time_point> lost_at{};
    Clock::time_point not_before{};
  };
  void start(std::size_t index, const FindServers& servers);
  void begin(std::size_t index, const FindServers& servers);
  std::optional<FleetFailure> look_at(std::size_t index, const FindServers& servers);
  std::optional<FleetFailure> end_of(std::size_t index);
  void look_for_silence(Replica& replica);
  void note_recovery(std::size_t index);
  void order(const Replica& replica, const comm::WorkerOrder& order);
  // Whether the replica is paused in a run in which the others do not wait for missing ones.
  bool is_away(const Replica& replica) const { return options_.stops_together && replica.rests; }
  bool is_ending(const Replica& replica) const { return stopping_ || replica.is_leaving; }
  int spares_left() const;
  // The last report of its first worker; or null.
  static const comm::WorkerReport* said_by(const Replica& replica);

  Options options_;
  Dispatch& dispatch_;
  std::vector<Replica> replicas_;
  Pace pace_ = Pace::kGoOn;
  bool stopping_ = false;
};

}  // namespace distbelief::cluster
