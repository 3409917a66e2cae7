#include "distbelief/cluster/supervisor.h"

#include <fmt/format.h>
#include <signal.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/cluster/cohort.h"
#include "distbelief/comm/rpc/control_server.h"
#include "distbelief/report/metrics.h"

namespace distbelief::cluster {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

// Its decisions are taken on the thread that calls run(); gRPC's threads only note what they hear. One mutex.
class Supervisor final : public comm::ControlServer::Handler {
 public:
  Supervisor(const SupervisorOptions& options, const std::atomic<bool>& interrupted);
  int run();

  void report(const comm::WorkerReport& report) override;
  void lost(int cohort, int rank) override;
  comm::CommandReply command(const comm::Command& command) override;

 private:
  std::unique_ptr<Cohort> launch(int workers);
  std::optional<int> look();
  std::optional<int> look_at_active();
  std::optional<int> end_of_active();
  void recover(const Loss& loss);
  void change_size();
  void begin(std::unique_ptr<Cohort> cohort);
  void order_all(const Cohort& cohort, const comm::WorkerOrder& order);
  void see_off();
  void note_recovery();
  void tell_recovery();
  int say_goodbye();
  Cohort* find(int id);
  nlohmann::json status() const;
  comm::CommandReply scale(std::int64_t workers);
  void say(const std::string& line) const;
  void event(const std::string& kind, nlohmann::json details);

  const SupervisorOptions& options_;
  const std::atomic<bool>& interrupted_;
  report::MetricsLog events_;

  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  int cohorts_ = 0;
  int generation_ = 0;
  int wanted_ = 1;                  // workers
  std::unique_ptr<Cohort> active_;  // trains
  std::unique_ptr<Cohort> next_;    // gets ready, or is
  std::deque<std::pair<std::unique_ptr<Cohort>, Clock::time_point>> leaving_;
  bool hand_over_ordered_ = false;
  bool stopping_ = false;
  bool paused_ = false;
  std::optional<std::string> failure_;
  std::vector<Loss> losses_;
  std::optional<Clock::time_point> lost_at_;     // until a new step is there
  std::optional<Clock::time_point> not_before_;  // a restart that has to wait
  std::string change_;                           // why the next generation comes
  std::optional<comm::ControlServer> server_;    // last: its threads use all of this
};

Supervisor::Supervisor(const SupervisorOptions& options, const std::atomic<bool>& interrupted)
    : options_(options),
      interrupted_(interrupted),
      events_(options.run_dir / "events.jsonl"),
      wanted_(options.launch.workers) {
  server_.emplace(comm::ControlAddress{.target = "unix:" + options_.place.socket.string()}, *this);
}

void Supervisor::say(const std::string& line) const {
  std::fflush(stdout);
  fmt::print(stderr, "distbelief: {}\n", line);
}

void Supervisor::event(const std::string& kind, nlohmann::json details) {
  try {
    events_.append(report::event_line(kind, std::move(details)));
  } catch (const Error& error) {  // a full disk does not end a run
    say(error.what());
  }
}

std::unique_ptr<Cohort> Supervisor::launch(int workers) {
  LaunchOptions launch = options_.launch;
  launch.workers = workers;
  launch.command = options_.worker_command(workers, ++cohorts_);
  launch.session_folder = options_.place.launcher;
  // When we die the launcher hands SIGUSR1 to its workers: they save and end.
  return std::make_unique<Cohort>(
      cohorts_, workers,
      std::make_unique<Child>(Child::Options{.command = launch_command(launch), .death_signal = SIGUSR1}));
}

Cohort* Supervisor::find(int id) {
  if (active_ && active_->id() == id) return active_.get();
  if (next_ && next_->id() == id) return next_.get();
  for (auto& [cohort, since] : leaving_)
    if (cohort->id() == id) return cohort.get();
  return nullptr;
}

void Supervisor::report(const comm::WorkerReport& report) {
  const std::lock_guard lock(mutex_);
  Cohort* cohort = find(report.generation);
  if (cohort == nullptr) return;
  const auto before = cohort->reports().find(report.rank);
  const bool news = before == cohort->reports().end() || before->second.state != report.state ||
                    (lost_at_ && before->second.step != report.step);
  cohort->hear(report);
  if (news) changed_.notify_one();
}

void Supervisor::lost(int id, int rank) {
  const std::lock_guard lock(mutex_);
  if (Cohort* cohort = find(id)) cohort->lose(rank, Clock::now());
  changed_.notify_one();
}

void Supervisor::order_all(const Cohort& cohort, const comm::WorkerOrder& order) {
  for (int rank = 0; rank < cohort.workers(); ++rank) server_->order(cohort.id(), rank, order);
}

void Supervisor::begin(std::unique_ptr<Cohort> cohort) {
  active_ = std::move(cohort);
  hand_over_ordered_ = false;
  const nlohmann::json text = {{"generation", ++generation_},
                               {"recoveries", losses_.size()},
                               {"resume", options_.resume || generation_ > 1}};
  order_all(*active_, {.kind = "go", .value = 0, .text = text.dump()});
  if (stopping_) order_all(*active_, {.kind = "stop", .value = 0, .text = {}});
  if (paused_) order_all(*active_, {.kind = "pause", .value = 0, .text = {}});
  event("generation", {{"generation", generation_},
                       {"workers", active_->workers()},
                       {"cohort", active_->id()},
                       {"reason", change_}});
}

// Workers that are no longer needed get two seconds to leave by themselves.
void Supervisor::see_off() {
  std::erase_if(leaving_, [&](auto& one) {
    auto& [cohort, since] = one;
    if (cohort->child().ended() && cohort->workers_are_gone()) return true;
    const double waited = seconds_since(since);
    if (waited > 2) cohort->child().signal_one(waited > 3 ? SIGKILL : SIGTERM);
    if (waited > 3) cohort->kill_workers();
    return false;
  });
}

void Supervisor::recover(const Loss& loss) {
  losses_.push_back(loss);
  const RecoveryDecision decision = decide_recovery(options_.policy, losses_);
  event("lost", {{"worker", loss.rank},
                 {"signal", loss.signal},
                 {"exit_code", loss.exit_code},
                 {"step", loss.step},
                 {"reason", loss.reason},
                 {"decision", decision.restart ? "restart" : "give up"},
                 {"why", decision.reason}});
  if (!decision.restart) {
    failure_ = fmt::format("{}; given up: {}", loss.describe(), decision.reason);
    return;
  }
  change_ = loss.describe();
  not_before_ = Clock::now() + decision.delay;
  if (decision.delay.count() > 0) say(fmt::format("{}; {}", loss.describe(), decision.reason));
}

std::optional<int> Supervisor::end_of_active() {
  const int code = active_->child().exit_code();
  if (code == 0 && lost_at_ && !losses_.empty()) tell_recovery();  // it was faster than its reports
  if (code == 0 || code == 130) return code;
  if (!active_->is_broken()) active_->lose(-1, Clock::now());
  if (!lost_at_) lost_at_ = active_->lost_at();
  recover(active_->loss());
  active_->kill_workers();  // who outlived the launcher must not outlive it by much
  leaving_.emplace_back(std::move(active_), Clock::now());
  return std::nullopt;
}

std::optional<int> Supervisor::look_at_active() {
  if (active_->has_handed_over()) {
    leaving_.emplace_back(std::move(active_), Clock::now());
    return std::nullopt;
  }
  if (active_->child().ended()) return end_of_active();
  if (!active_->is_broken()) return std::nullopt;
  if (!lost_at_) lost_at_ = active_->lost_at();
  if (!active_->has_said_why()) active_->kill_workers();  // those that are left would only find out later
  if (seconds_since(active_->lost_at()) > 1) {
    active_->kill_workers();
    active_->child().signal_group(SIGKILL);
  }
  return std::nullopt;
}

// A planned change: the next generation gets ready while this one trains, then takes over.
void Supervisor::change_size() {
  if (next_ && next_->workers() != wanted_) {
    leaving_.emplace_back(std::move(next_), Clock::now() - std::chrono::seconds(2));
    return;
  }
  if (!next_) {
    next_ = launch(wanted_);
  } else if (next_->is_ready() && !hand_over_ordered_) {
    hand_over_ordered_ = true;
    order_all(*active_, {.kind = "hand over", .value = 0, .text = {}});
  }
}

void Supervisor::note_recovery() {
  if (!lost_at_ || !active_ || active_->is_broken() || losses_.empty() || active_->first_step() < 0) return;
  if (active_->step() > std::max(losses_.back().step, active_->first_step())) tell_recovery();
}

void Supervisor::tell_recovery() {
  const double took = seconds_since(*lost_at_);
  say(fmt::format("{}; continued with {} worker{} from step {} after {:.1f} s", change_, active_->workers(),
                  active_->workers() == 1 ? "" : "s", active_->first_step(), took));
  event("recovered", {{"generation", generation_},
                      {"seconds", took},
                      {"from_step", active_->first_step()},
                      {"step", active_->step()}});
  lost_at_.reset();
}

// Everything that is due now; an exit code when the run has ended.
std::optional<int> Supervisor::look() {
  see_off();
  if (active_)
    if (const std::optional<int> code = look_at_active()) return code;
  if (failure_) return 1;
  note_recovery();
  if (next_ && (next_->child().ended() || next_->is_broken())) {
    if (!next_->child().wait_ended(milliseconds(500))) next_->child().signal_group(SIGKILL);
    next_->child().wait_ended(milliseconds(500));
    if (active_ && !active_->is_broken()) {  // the run does not depend on it: another one, after a moment
      event("spare lost", {{"cohort", next_->id()}, {"exit_code", next_->child().exit_code()}});
      next_.reset();
      not_before_ = Clock::now() + std::chrono::seconds(2);
      return std::nullopt;
    }
    if (next_->child().exit_code() == 130) return 130;
    if (!lost_at_ && generation_ > 0) lost_at_ = Clock::now();
    recover(next_->loss());
    next_.reset();
    return std::nullopt;
  }
  if (active_) {
    if (stopping_ || (!next_ && not_before_ && Clock::now() < *not_before_)) return std::nullopt;
    if (wanted_ != active_->workers())
      change_size();
    else if (!next_ && options_.standby && active_->step() >= 0)
      next_ = launch(active_->workers());
    return std::nullopt;
  }
  if (!next_ && (!not_before_ || Clock::now() >= *not_before_)) next_ = launch(wanted_);
  const bool alone = std::all_of(leaving_.begin(), leaving_.end(), [](const auto& one) {
    return one.first->workers_are_gone() || one.first->has_handed_over();
  });
  if (next_ && next_->is_ready() && alone) begin(std::move(next_));
  return std::nullopt;
}

// Without the lock: the workers' last reports must get through. Cohorts change on this thread only.
int Supervisor::say_goodbye() {
  std::vector<Child*> children;
  for (const auto* cohort : {&active_, &next_})
    if (*cohort) children.push_back(&(*cohort)->child());
  for (auto& [cohort, since] : leaving_) children.push_back(&cohort->child());
  std::vector<Farewell> farewells(children.size());
  for (bool all_gone = false; !all_gone;) {
    all_gone = true;
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (children[i]->wait_ended(milliseconds(5))) continue;
      all_gone = false;
      farewells[i].press(*children[i]);
    }
  }
  return 130;
}

int Supervisor::run() {
  std::optional<int> code;
  {
    std::unique_lock lock(mutex_);
    change_ = "start";
    next_ = launch(wanted_);
    while (!interrupted_.load() && !(code = look())) changed_.wait_for(lock, milliseconds(20));
    if (failure_) say(*failure_);
    if (failure_ && losses_.back().exit_code == 2 && losses_.back().signal == 0) code = 2;
    if (!code) {
      lock.unlock();
      code = say_goodbye();
      lock.lock();
    }
    active_.reset();
    next_.reset();
    leaving_.clear();
    event("ended", {{"exit_code", *code}, {"generations", generation_}, {"recoveries", losses_.size()}});
  }
  server_->close();
  return *code;
}

nlohmann::json Supervisor::status() const {
  nlohmann::json workers = nlohmann::json::array();
  if (active_)
    for (const auto& [rank, report] : active_->reports())
      workers.push_back({{"rank", rank},
                         {"pid", report.pid},
                         {"host", report.host},
                         {"state", report.state},
                         {"phase", report.phase},
                         {"step", report.step},
                         {"lanes", report.lanes},
                         {"step_seconds", report.step_seconds},
                         {"busy_seconds", report.busy_seconds}});
  const comm::WorkerReport* first =
      active_ && active_->reports().contains(0) ? &active_->reports().at(0) : nullptr;
  return {{"run", options_.run_dir.string()},
          {"state", !active_    ? "starting workers"
                    : stopping_ ? "stopping"
                    : paused_   ? "paused"
                                : "training"},
          {"generation", generation_},
          {"recoveries", losses_.size()},
          {"workers_wanted", wanted_},
          {"step", active_ ? active_->step() : -1},
          {"epoch", first ? first->epoch : 0},
          {"loss", first ? first->loss : 0},
          {"samples_per_second", first ? first->samples_per_second : 0},
          {"snapshot_step", active_ ? active_->snapshot_step() : -1},
          {"checkpoint_step", active_ ? active_->checkpoint_step() : -1},
          {"workers", workers}};
}

comm::CommandReply Supervisor::scale(std::int64_t workers) {
  if (workers < options_.min || workers > options_.max)
    return {false,
            fmt::format("this run can have {} to {} workers (elastic.min; elastic.max, its lanes), not {}",
                        options_.min, options_.max, workers)};
  if (!options_.snapshots)
    return {
        false,
        "a run without snapshots cannot be handed over: it was started with checkpoint.snapshots = false"};
  wanted_ = int(workers);
  change_ = fmt::format("scaled to {}", workers);
  event("scale", {{"workers", workers}});
  return {true, fmt::format("going to {} worker{}", workers, workers == 1 ? "" : "s")};
}

comm::CommandReply Supervisor::command(const comm::Command& command) {
  const std::lock_guard lock(mutex_);
  changed_.notify_one();
  if (command.name == "status") return {true, status().dump()};
  if (command.name == "scale") return scale(command.value);
  if (!active_) return {false, "the workers are just being started; try again in a moment"};
  if (command.name == "stop") {
    stopping_ = true;
    order_all(*active_, {.kind = "stop", .value = 0, .text = {}});
  } else if (command.name == "pause" || command.name == "continue") {
    paused_ = command.name == "pause";
    order_all(*active_, {.kind = command.name, .value = 0, .text = {}});
  } else {
    return {false, fmt::format("this run does not know the command '{}'", command.name)};
  }
  event(command.name, nlohmann::json::object());
  return {true, "done"};
}

}  // namespace

int supervise(const SupervisorOptions& options, const std::atomic<bool>& interrupted) {
  prepare_launcher();
  clear_abandoned(options.place);
  if (!options.resume) clear_place(options.place);  // of an earlier run in a folder of that name
  make_place(options.place);
  struct Clearing {
    const RunPlace& place;
    ~Clearing() { clear_place(place); }
  } clearing{options.place};
  return Supervisor(options, interrupted).run();
}

}  // namespace distbelief::cluster
