#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "distbelief/base/durable_file.h"
#include "distbelief/base/error.h"
#include "distbelief/cluster/supervision.h"

namespace distbelief::cluster {
namespace {

using std::chrono::milliseconds;

const comm::WorkerOrder kStop{.kind = "stop", .value = 0, .text = {}};

double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

}  // namespace

Supervisor::Supervisor(const SupervisorOptions& options, const std::atomic<bool>& interrupted)
    : options_(options),
      interrupted_(interrupted),
      events_(options.run_dir / "events.jsonl"),
      control_("unix:" + options.place.socket.string()),
      board_(options.hosts, options.spares),
      watch_(options.watch),
      threads_(options.threads) {
  if (options_.measure_each) gauge_.emplace(*options_.measure_each);
  saved_before_ = newest_checkpoint();
  server_.emplace(comm::ControlAddress{.target = control_}, *this);
  if (!board_.is_local()) listen_to_hosts();
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

std::unique_ptr<Cohort> Supervisor::launch(const Placement& placement) {
  LaunchOptions launch = options_.launch;
  launch.workers = placement.workers;
  launch.hosts = placement.hosts;
  launch.command = options_.worker_command(
      {.workers = placement.workers, .threads = threads_, .cohort = ++cohorts_, .control = control_});
  launch.session_folder = options_.place.launcher;
  if (far_server_ && options_.certs.empty()) launch.exported.emplace_back(kCertificatesVariable);
  for (const HostSlots& host : placement.hosts) used_.insert(host.host);
  // If this process dies, the launcher passes SIGUSR1 to its workers: they save and end.
  return std::make_unique<Cohort>(
      cohorts_, placement, threads_,
      std::make_unique<Child>(Child::Options{
          .command = launch_command(launch), .death_signal = SIGUSR1, .environment = secrets_}));
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
  if (cohort == nullptr) {  // reconnected after a cut link, or started late
    server().order(report.generation, report.rank, {.kind = "leave", .value = 0, .text = {}});
    return;
  }
  const auto before = cohort->reports().find(report.rank);
  const bool news = before == cohort->reports().end() || before->second.state != report.state ||
                    (lost_at_ && before->second.step != report.step);
  cohort->hear(report, Clock::now());
  has_snapshots_ |= report.snapshot_step >= 0;
  furthest_step_ = std::max(furthest_step_, report.step);
  if (report.state == "ended") cohort->part_with(report.rank);
  if (is_goodbye_ && before == cohort->reports().end())  // it was not connected when the others were told
    server().order(report.generation, report.rank, kStop);
  if (news) changed_.notify_one();
}

void Supervisor::lost(int id, int rank) {
  const std::lock_guard lock(mutex_);
  if (Cohort* cohort = find(id)) {
    cohort->part_with(rank);
    note_own_absence();
    // gRPC has noticed a silence first; find out whether the whole host is silent or only this worker.
    look_for_silence(*cohort, options_.silence / 2);
    const auto now = Clock::now();
    const Clock::duration unheard = cohort->unheard(rank, now);
    if (unheard > options_.silence / 2)
      cohort->give_up(
          rank,
          fmt::format("silent for {:.1f} s, in phase {}", std::chrono::duration<double>(unheard).count(),
                      cohort->reports().at(rank).phase),
          now);
    cohort->lose(rank, now);
  }
  changed_.notify_one();
}

void Supervisor::order_all(const Cohort& cohort, const comm::WorkerOrder& order) {
  for (int rank = 0; rank < cohort.workers(); ++rank) server().order(cohort.id(), rank, order);
}

void Supervisor::order_lanes(const Cohort& cohort) {
  order_all(cohort, {.kind = "lanes",
                     .value = ++lane_orders_,
                     .text = nlohmann::json{{"threads", threads_}, {"resting", resting_}}.dump()});
}

void Supervisor::begin(std::unique_ptr<Cohort> cohort) {
  active_ = std::move(cohort);
  hand_over_ordered_ = false;
  const nlohmann::json text = {{"generation", ++generation_},
                               {"recoveries", losses_.size()},
                               {"fence", raise_fence()},
                               {"resume", options_.resume || generation_ > 1}};
  // Recorded before the workers are told, because they write to the same file.
  event("generation", {{"generation", generation_},
                       {"workers", active_->workers()},
                       {"hosts", to_string(active_->placement().hosts)},
                       {"cohort", active_->id()},
                       {"reason", change_}});
  order_all(*active_, {.kind = "go", .value = 0, .text = text.dump()});
  if (int(resting_.size()) >= active_->workers()) resting_.clear();  // at least one worker must work
  if (threads_ != active_->threads() || !resting_.empty()) order_lanes(*active_);  // not known to it
  if (stopping_) order_all(*active_, kStop);
  if (paused_) order_all(*active_, {.kind = "pause", .value = 0, .text = {}});
  saved_ = false;
  if (losses_.empty()) lost_at_.reset();  // a lost host explained it
  for (const HostSlots& host : active_->placement().hosts) lost_hosts_.erase(host.host);
}

// Workers of an earlier generation that still write find a larger number in the run folder and stop writing.
std::int64_t Supervisor::raise_fence() {
  const std::filesystem::path path = options_.run_dir / "fence";
  std::int64_t there = 0;
  std::ifstream(path) >> there;
  fence_ = std::max(fence_, there) + 1;
  const std::string text = std::to_string(fence_);
  const std::string_view piece = text;
  try {
    write_atomically(path, {&piece, 1});
  } catch (const Error& error) {  // a full disk does not end a run
    say(error.what());
  }
  return fence_;
}

// Workers that are no longer needed get two seconds to end by themselves.
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

// Each loss gets its own line: at once, or together with its recovery.
void Supervisor::recover(const Loss& loss) {
  if (untold_) say(*std::exchange(untold_, {}) + "; the next loss came before a new step");
  losses_.push_back(loss);
  const RecoveryDecision decision = decide_recovery(options_.policy, losses_);
  event("lost", {{"worker", loss.rank},
                 {"host", loss.host},
                 {"launcher", loss.launcher},
                 {"signal", loss.signal},
                 {"exit_code", loss.exit_code},
                 {"step", loss.step},
                 {"reason", loss.reason},
                 {"decision", decision.restart ? "restart" : "give up"},
                 {"why", decision.reason}});
  if (!decision.restart) {
    failure_ = loss.by_job ? fmt::format("worker {}: {}", loss.rank, loss.reason)
                           : fmt::format("{}; given up: {}", loss.describe(), decision.reason);
    return;
  }
  change_ = loss.describe();
  not_before_ = Clock::now() + decision.delay;
  if (decision.delay.count() > 0)
    say(fmt::format("{}; {}", loss.describe(), decision.reason));
  else
    untold_ = loss.describe();
}

std::optional<int> Supervisor::end_of_active() {
  const int code = active_->child().exit_code();
  if (code == 0 && lost_at_ && !losses_.empty()) tell_recovery();  // it was faster than its reports
  // A user's own program may end with another exit code when it was stopped.
  if (code == 0 && options_.lanes == 0 && is_wanted_to_stop() && !active_->is_complete()) return 130;
  if (code == 0 || (code == 130 && is_wanted_to_stop())) return code;
  if (code == 130 && retreating_) {  // it has saved; now the run waits for hosts
    retreating_ = false;
    saved_ = true;
    leaving_.emplace_back(std::move(active_), Clock::now());
    return std::nullopt;
  }
  if (!active_->is_broken()) active_->lose(-1, Clock::now());
  if (!lost_at_) lost_at_ = active_->lost_at();
  recover(active_->loss());
  active_->kill_workers();  // survivors of the launcher must not outlive it for long
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
  if (!active_->has_said_why()) active_->kill_workers();  // the survivors would only fail later
  // Workers on other hosts end with their launcher.
  if (seconds_since(active_->lost_at()) > (board_.is_local() || active_->has_said_why() ? 1 : 0)) {
    active_->kill_workers();
    active_->child().signal_group(SIGKILL);
  }
  return std::nullopt;
}

// A planned change: the next generation gets ready while this one trains, and then takes over.
void Supervisor::change_to(const Placement& placement) {
  if (next_ && next_->placement() != placement) {
    leaving_.emplace_back(std::move(next_), Clock::now() - std::chrono::seconds(2));
    return;
  }
  if (!next_ && placement.workers > 0) next_ = launch(placement);
  if (hand_over_ordered_ || (placement.workers > 0 && !next_->is_ready())) return;
  hand_over_ordered_ = true;
  retreating_ = placement.workers == 0;  // no host is left, so it saves to the disk
  order_all(*active_, {.kind = retreating_ ? "stop" : "hand over", .value = 0, .text = {}});
}

// Whether no operation is in progress that a measurement or a decision could disturb, or be disturbed by.
bool Supervisor::is_quiet() const {
  return active_ && !active_->is_broken() && active_->placement() == placement() && !hand_over_ordered_ &&
         !(next_ && !next_->is_ready()) && leaving_.empty() && !lost_at_ && !paused_ && !stopping_ &&
         resting_.empty();
}

// Implements elastic.auto: measures, decides, and stops when no measurement is left to do.
void Supervisor::look_for_size() {
  if (!gauge_) return;
  if (!is_quiet()) return gauge_->restart();
  const std::optional<double> speed = gauge_->note(active_->step(), Clock::now());
  if (!speed) return;
  const int now = active_->workers();
  const int room = board_.is_local() ? options_.max : std::min(options_.max, board_.slots());
  // The first measurement of a number counts; a second one could by chance send the run back and forth.
  speeds_.emplace(now, *speed);
  const AutoscaleDecision decision =
      decide_workers(worker_counts(options_.lanes, threads_, options_.min, room), now, speeds_);
  event("autoscale", {{"workers", decision.workers},
                      {"before", now},
                      {"steps_per_second", *speed},
                      {"settled", decision.settled},
                      {"reason", decision.reason}});
  say(fmt::format("autoscale: {}", decision.reason));
  if (decision.workers != now) change_ = fmt::format("autoscale: {}", decision.reason);
  asked_for_ = decision.workers;
  if (decision.settled) gauge_.reset();
}

void Supervisor::note_recovery() {
  if (!lost_at_ || !active_ || active_->is_broken() || losses_.empty() || active_->first_step() < 0) return;
  const auto furthest = std::ranges::max_element(losses_, {}, &Loss::step);
  if (active_->step() > std::max(furthest->step, active_->first_step())) tell_recovery();
}

void Supervisor::tell_recovery() {
  const double took = seconds_since(*lost_at_);
  say(fmt::format("{}; continued with {} worker{} from step {} after {:.1f} s",
                  std::exchange(untold_, {}).value_or("recovered"), active_->workers(),
                  active_->workers() == 1 ? "" : "s", active_->first_step(), took));
  event("recovered", {{"generation", generation_},
                      {"seconds", took},
                      {"from_step", active_->first_step()},
                      {"step", active_->step()}});
  lost_at_.reset();
}

// Does everything that is due; returns an exit code when the run has ended.
std::optional<int> Supervisor::look() {
  see_off();
  look_at_hosts();
  if (active_)
    if (const std::optional<int> code = look_at_active()) return code;
  if (failure_) return 1;
  if (stopping_ && !active_) return 130;
  note_recovery();
  if (next_)
    if (const std::optional<int> code = look_at_next()) return code;
  if (failure_) return 1;
  steer();
  return std::nullopt;
}

// Handles the end of a cohort that never got ready, or was lost while it waited for its turn.
std::optional<int> Supervisor::look_at_next() {
  if (!active_ && next_->placement() != placement()) {  // its placement is outdated
    leaving_.emplace_back(std::move(next_), Clock::now() - std::chrono::seconds(2));
    return std::nullopt;
  }
  if (!next_->child().ended()) {
    if (next_->is_broken() && seconds_since(next_->lost_at()) > 0.5) next_->child().signal_group(SIGKILL);
    return std::nullopt;
  }
  const Loss loss = next_->loss();
  if (!board_.is_local())
    for (const HostSlots& host : next_->placement().hosts) questioned_.insert(host.host);
  watch_.ask({questioned_.begin(), questioned_.end()});
  const int id = next_->id();
  leaving_.emplace_back(std::move(next_), Clock::now() - std::chrono::seconds(2));
  if (active_ && !active_->is_broken()) {  // the run continues; another one follows after a moment
    event("spare lost", {{"cohort", id}, {"exit_code", loss.exit_code}});
    not_before_ = Clock::now() + std::chrono::seconds(2);
    return std::nullopt;
  }
  if (loss.exit_code == 130 && is_wanted_to_stop()) return 130;
  if (!lost_at_ && generation_ > 0) lost_at_ = Clock::now();
  if (questioned_.empty())
    recover(loss);
  else
    unexplained_ = loss;  // a host that does not answer may be the reason
  return std::nullopt;
}

// Starts, begins or replaces cohorts so that the wanted workers train or get ready.
void Supervisor::steer() {
  const Placement wanted = placement();
  if (active_) {
    if (stopping_ || active_->is_broken() || !questioned_.empty()) return;
    if (!next_ && not_before_ && Clock::now() < *not_before_) return;
    look_for_size();
    if (placement() != wanted) return;  // look_for_size() has changed the number of workers
    const bool mistaken = next_ && next_->placement() != wanted && !hand_over_ordered_;
    if (wanted != active_->placement())
      change_to(wanted);
    else if (mistaken)  // it got ready for a change that was taken back
      leaving_.emplace_back(std::move(next_), Clock::now() - std::chrono::seconds(2));
    else if (!next_ && options_.standby && active_->step() >= 0)
      next_ = launch(wanted);
    return;
  }
  if (wanted.workers == 0 && !next_) return await_hosts();
  start_next();
}

void Supervisor::start_next() {
  const bool may_start = questioned_.empty() && (!not_before_ || Clock::now() >= *not_before_);
  if (!next_ && may_start) {
    next_ = launch(placement());
    waiting_ = false;
  }
  const bool alone = std::all_of(leaving_.begin(), leaving_.end(), [](const auto& one) {
    return one.first->workers_are_gone() || one.first->has_handed_over();
  });
  if (next_ && next_->is_ready() && alone) begin(std::move(next_));
}

// Called without the lock, so that the workers' last reports get through. Only this thread changes cohorts.
void Supervisor::say_goodbye() {
  std::vector<Child*> children;
  for (const auto* cohort : {&active_, &next_})
    if (*cohort) {
      order_all(**cohort, kStop);
      children.push_back(&(*cohort)->child());
    }
  for (auto& [cohort, since] : leaving_) children.push_back(&cohort->child());
  end_together(children);
}

int Supervisor::run() {
  std::optional<int> code;
  {
    std::unique_lock lock(mutex_);
    while (!interrupted_.load() && !(code = look())) changed_.wait_for(lock, milliseconds(20));
    if (untold_) say(*untold_);
    if (failure_) say(*failure_);
    if (failure_ && was_refused(losses_.back(), furthest_step_)) code = 2;
    keeps_snapshots_ = (!code || *code == 130) && !active_ && !saved_ && generation_ > 0;
    is_goodbye_ = !code;
    if (!code) {
      lock.unlock();
      say_goodbye();
      lock.lock();
      code = active_ && active_->is_complete() ? 0 : 130;  // it had finished when the signal arrived
      // A worker that could not save in time, or was handing over, has left snapshots.
      if (active_ && (!active_->has_ended_well() || active_->has_handed_over()))
        keeps_snapshots_ = active_->snapshot_step() > newest_checkpoint();
      if (active_ && !active_->placement().hosts.empty()) keeper_ = active_->placement().hosts[0].host;
    }
    if (active_) std::erase_if(used_, [&](const std::string& host) { return active_->has_forgotten(host); });
    active_.reset();
    next_.reset();
    leaving_.clear();
    event("ended", {{"exit_code", *code}, {"generations", generation_}, {"recoveries", losses_.size()}});
  }
  server_->close();
  if (far_server_) far_server_->close();
  settle_snapshots(*code);
  return *code;
}

int supervise(const SupervisorOptions& options, const std::atomic<bool>& interrupted) {
  prepare_launcher();
  clear_abandoned(options.place);
  if (!options.resume) clear_place(options.place);  // left by an earlier run in a folder of that name
  make_place(options.place);
  bool keep = options.resume;  // keeps what an earlier run left
  struct Clearing {
    const RunPlace& place;
    const bool& keep;
    ~Clearing() { keep ? clear_folder(place) : clear_place(place); }
  } clearing{options.place, keep};
  Supervisor supervisor(options, interrupted);
  if (options.resume) supervisor.bring_snapshots_back();
  const int code = supervisor.run();
  keep = supervisor.keeps_snapshots();
  return code;
}

}  // namespace distbelief::cluster
