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

// The replicas of a run with parameter servers, each a world of its own: starts them, and starts again what
// is lost. Used with the fleet's lock.
class ReplicaSet {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    std::vector<ReplicaPlace> places{};
    std::int64_t least = 1, most = 0;  // that scale() may ask for; 0: any number
    RankGroups groups{};
    std::function<std::vector<std::string>(const FleetProcess&)> command{};
    RecoveryPolicy policy{};
    bool stops_together = false;  // nobody can do without another (sync, decomposed) ...
    int spares = 0;               // ... but for so many (sync)
    bool resume = false;
    // With a worker: one that says nothing for longer counts as lost.
    Cohort::Patience patience{.silence = std::chrono::minutes(1), .first_word = std::chrono::minutes(2)};
  };
  ReplicaSet(Options options, Dispatch& dispatch);

  void hear(const comm::WorkerReport& report);
  void lost(int launch, int rank);
  // Nobody could be heard for so long: the supervisor did not run.
  void excuse(Clock::duration absence);
  // Starts and replaces what is to be; `servers` says where these listen now, to one that is started.
  using FindServers = std::function<std::vector<std::string>()>;
  std::optional<FleetFailure> look(const FindServers& servers);
  bool are_all_over() const;

  void stop();  // all save and end, and none is started any more
  enum class Pace { kGoOn, kPause };
  void set_pace(Pace pace);
  bool is_paused() const { return pace_ == Pace::kPause; }
  // Where servers listen by now: one that has not asked for a while may know none of them.
  void tell_servers(const std::vector<std::string>& targets);
  // One that takes steps of its own, or a spare one: that is ended, and started again when it is to go on.
  comm::CommandReply set_pace_of(std::int64_t replica, Pace pace);
  // So many replicas from now on.
  comm::CommandReply scale(std::int64_t replicas);

  nlohmann::json workers() const;     // what each said last
  std::int64_t step() const;          // the furthest; -1: none
  double loss() const;                // of the first replica
  std::int64_t epoch() const;         // of the first replica's step
  double samples_per_second() const;  // of all
  int recoveries() const;
  int size() const { return int(replicas_.size()); }
  int wanted() const;  // that do not leave
  // Launchers of those that live.
  std::vector<Child*> children();
  void clear() { replicas_.clear(); }

 private:
  struct Replica {
    ReplicaPlace place{};
    std::unique_ptr<Cohort> cohort{};  // none: it is to be started, has done its work, or was given up
    bool told_to_go = false;
    bool is_leaving = false;  // it is not wanted any more
    bool rests = false;       // while the others go on
    int pauses = 0;           // that it was ended for
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
  // In which the others do not wait for those that are missing.
  bool is_away(const Replica& replica) const { return options_.stops_together && replica.rests; }
  bool is_ending(const Replica& replica) const { return stopping_ || replica.is_leaving; }
  int spares_left() const;
  static const comm::WorkerReport* said_by(const Replica& replica);  // its first worker, last; or null

  Options options_;
  Dispatch& dispatch_;
  std::vector<Replica> replicas_;
  Pace pace_ = Pace::kGoOn;
  bool stopping_ = false;
};

}  // namespace distbelief::cluster
