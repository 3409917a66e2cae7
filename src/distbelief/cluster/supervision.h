#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "distbelief/cluster/autoscale.h"
#include "distbelief/cluster/cohort.h"
#include "distbelief/cluster/supervisor.h"
#include "distbelief/comm/rpc/control_server.h"
#include "distbelief/report/metrics.h"

// Internal header for the supervisor's sources.
namespace distbelief::cluster {

// The thread that calls run() takes all decisions; gRPC's threads only record what they receive. One mutex.
class Supervisor final : public comm::ControlServer::Handler {
 public:
  Supervisor(const SupervisorOptions& options, const std::atomic<bool>& interrupted);
  // For a resumed run, before run(). Throws Error.
  void bring_snapshots_back();
  int run();
  // After run(): true when no generation has saved since the last snapshots, which are then the only state.
  bool keeps_snapshots() const { return keeps_snapshots_; }

  void report(const comm::WorkerReport& report) override;
  void lost(int cohort, int rank) override;
  comm::CommandReply command(const comm::Command& command) override;

 private:
  using Clock = std::chrono::steady_clock;

  // The loop.
  std::optional<int> look();
  std::optional<int> look_at_active();
  std::optional<int> look_at_next();
  std::optional<int> end_of_active();
  void recover(const Loss& loss);
  void steer();
  bool is_quiet() const;
  void look_for_size();
  void change_to(const Placement& placement);
  void start_next();
  std::unique_ptr<Cohort> launch(const Placement& placement);
  void begin(std::unique_ptr<Cohort> cohort);
  std::int64_t raise_fence();
  void see_off();
  void note_recovery();
  void tell_recovery();
  void say_goodbye();

  // Hosts.
  void listen_to_hosts();
  void note_own_absence();
  void look_at_hosts();
  void take_answer(const HostWatch::Answer& answer);
  void look_for_silence(Cohort& cohort, std::chrono::milliseconds allowed);
  void look_for_notices();
  void look_for_hang();
  void await_hosts();
  void clear_hosts();
  bool holds_snapshot() const;
  bool clear_host(const std::string& host, const std::filesystem::path& kept) const;
  void settle_snapshots(int code);
  bool put_snapshots_aside(const std::filesystem::path& file);
  int wanted() const;  // number of workers
  Placement placement() const { return arranged(board_.place(wanted(), options_.min), options_.groups); }

  // Communication with workers and commands.
  comm::ControlServer& server() {
    return far_server_ ? *far_server_ : *server_;
  }  // the server that workers connect to
  bool is_wanted_to_stop() const { return stopping_ || interrupted_.load(); }
  void order_all(const Cohort& cohort, const comm::WorkerOrder& order);
  void order_lanes(const Cohort& cohort);
  nlohmann::json status() const;
  std::int64_t newest_checkpoint() const;  // its step, -1: none
  comm::CommandReply scale(const comm::Command& command);
  comm::CommandReply pause_worker(const comm::Command& command);
  void say(const std::string& line) const;
  void event(const std::string& kind, nlohmann::json details);
  Cohort* find(int id);

  const SupervisorOptions& options_;
  const std::atomic<bool>& interrupted_;
  report::MetricsLog events_;
  std::string control_;               // the address that workers connect to
  std::vector<std::string> secrets_;  // variables for the launcher only
  bool keeps_snapshots_ = false;
  bool is_brought_back_ = false;    // the snapshots in memory are also in the run folder
  bool has_snapshots_ = false;      // from this run
  std::int64_t saved_before_ = -1;  // step of the newest checkpoint at the start
  std::string keeper_;              // a host that has the snapshots; empty: this machine, or unknown

  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  int cohorts_ = 0;
  int generation_ = 0;
  std::int64_t furthest_step_ = -1;  // over all generations
  HostBoard board_;
  HostWatch watch_;
  std::optional<int> asked_for_;     // number of workers set by `distbelief scale` or by measurement
  int threads_ = 1;                  // per worker
  std::int64_t lane_orders_ = 0;     // number of orders so far
  std::optional<SpeedGauge> gauge_;  // set while elastic.auto measures
  Speeds speeds_;
  std::set<std::string> questioned_;  // hosts whose answers a restart waits for
  std::optional<Loss> unexplained_;   // the loss that led to those questions
  std::set<std::string> used_;        // hosts that ever had workers, and may keep data of the run
  std::set<std::string> lost_hosts_;  // hosts without an answer to the last question
  std::unique_ptr<Cohort> active_;    // the cohort that trains
  std::unique_ptr<Cohort> next_;      // the cohort that is or gets ready
  std::deque<std::pair<std::unique_ptr<Cohort>, Clock::time_point>> leaving_;
  bool hand_over_ordered_ = false;
  bool retreating_ = false;  // no hosts are left: the workers save and end, and the run waits
  bool saved_ = false;       // they have saved, and no other generation has begun
  bool stopping_ = false;
  bool is_goodbye_ = false;  // interrupted: all workers are being ended
  bool paused_ = false;
  bool waiting_ = false;   // for hosts
  std::set<int> resting_;  // workers that are paused while the others train
  std::optional<std::string> failure_;
  std::vector<Loss> losses_;
  std::optional<std::string> untold_;            // the last loss, until a line has reported it
  std::optional<Clock::time_point> lost_at_;     // until there is a new step
  std::optional<Clock::time_point> not_before_;  // earliest time of the next restart
  std::int64_t fence_ = 0;
  Clock::time_point last_look_ = Clock::now();
  std::string change_ = "start";               // the reason for the next generation
  std::optional<comm::ControlServer> server_;  // the last two members, because their threads use all others
  std::optional<comm::ControlServer> far_server_;
};

}  // namespace distbelief::cluster
