#include "distbelief/process/attendance.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>

#include "distbelief/base/host_name.h"
#include "distbelief/process/worker_orders.h"

namespace distbelief::process {
namespace {

constexpr std::chrono::milliseconds kReportInterval{50};
// Without a supervisor the workers finish their step, save and end; where the others are behind a cut link no
// step ends.
constexpr std::chrono::seconds kStepWithoutSupervisor{4};

}  // namespace

Attendance::Attendance(Options options) : options_(std::move(options)) {
  client_ = std::make_unique<comm::ControlClient>(
      comm::ControlClient::Options{.address = options_.address,
                                   .on_order = [this](const comm::WorkerOrder& order) { take(order); },
                                   .on_lost =
                                       [this] {
                                         options_.log->warn("the supervisor is gone: saving and stopping");
                                         options_.orders->stop = true;
                                         alone_ = true;
                                         changed_.notify_all();
                                       }});
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Attendance::~Attendance() {
  thread_ = {};
  client_->close();
}

void Attendance::take(const comm::WorkerOrder& order) try {
  options_.log->info("order: {} {}", order.kind, order.text);
  if (order.kind == "go") {
    const TurnOrder turn = read_turn_order(order.text);
    const std::lock_guard lock(mutex_);
    turn_ = train::RunStart{.generation = turn.generation,
                            .recoveries = turn.recoveries,
                            .fence = turn.fence,
                            .resume = turn.resume};
  } else if (order.kind == "stop") {
    options_.orders->stop = true;
  } else if (order.kind == "pause") {
    options_.orders->pause = true;
  } else if (order.kind == "continue") {
    options_.orders->pause = false;
  } else if (order.kind == "hand over") {
    options_.orders->hand_over = true;
  } else if (order.kind == "leave") {
    dismissed_ = true;
  } else if (order.kind == "servers") {
    options_.orders->servers.give(read_server_order(order.text));
  } else if (order.kind == "lanes") {
    options_.orders->lanes.give(read_lane_order(order.value, order.text));
  } else {
    options_.log->warn("an order that this worker does not know: {}", order.kind);
  }
  changed_.notify_all();
} catch (const std::exception& error) {  // on the thread that receives: nobody else would
  options_.log->error("order '{}' cannot be read: {}", order.kind, error.what());
}

comm::WorkerReport Attendance::report() const {
  const run::Vitals& vitals = *options_.vitals;
  return {.generation = options_.cohort,
          .rank = options_.rank,
          .pid = getpid(),
          .host = host_name(),
          .state = vitals.state.load(),
          .step = vitals.step,
          .from_step = vitals.from_step,
          .phase = std::string(report::to_string(vitals.phase)),
          .step_seconds = vitals.step_seconds,
          .busy_seconds = vitals.busy_seconds,
          .slowness = vitals.slowness,
          .snapshot_step = vitals.snapshot_step,
          .checkpoint_step = vitals.checkpoint_step,
          .loss = vitals.loss,
          .samples_per_second = vitals.samples_per_second,
          .epoch = vitals.epoch,
          .lanes = vitals.lanes.shown(),
          .message = {},
          .leaving = options_.leaving && options_.leaving->load(),
          .forgotten = vitals.forgotten};
}

void Attendance::run(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "db-attend");
  std::unique_lock lock(mutex_);
  do {
    client_->report(report());
    look_for_end();
  } while (!changed_.wait_for(lock, stop, kReportInterval, [&] { return stop.stop_requested(); }));
}

void Attendance::abandon(const std::string& why) {
  options_.log->error("{}: this worker ends", why);
  if (!dismissed_ && options_.abandon) options_.abandon();
  _exit(1);
}

void Attendance::look_for_end() {
  if (dismissed_) abandon("another generation has taken over");
  if (!alone_) return;
  const auto now = std::chrono::steady_clock::now();
  const std::pair<std::int64_t, const char*> shows{options_.vitals->step, options_.vitals->state};
  if (shown_ != shows || shown_at_ == std::chrono::steady_clock::time_point{}) shown_at_ = now;
  shown_ = shows;
  const std::chrono::duration<double> step(options_.vitals->step_seconds);
  const bool steps = std::string_view(shows.second) == "training" && step.count() > 0;
  const auto allowed = steps ? std::max<std::chrono::duration<double>>(kStepWithoutSupervisor, 3 * step)
                             : std::chrono::duration<double>(options_.deadline);
  const bool between_hosts = !options_.address.target.starts_with("unix:");
  if (between_hosts && shows.second != run::kSaving && now - shown_at_ > allowed)
    abandon("the supervisor is gone, and the other hosts do not answer");
}

std::optional<train::RunStart> Attendance::wait_for_turn(const std::atomic<bool>& interrupted) {
  options_.vitals->state = "ready";
  client_->report(report());
  std::unique_lock lock(mutex_);
  while (!turn_ && !options_.orders->stop && !interrupted.load())
    changed_.wait_for(lock, std::chrono::milliseconds(20));  // a signal wakes nobody
  return turn_;
}

void Attendance::end(const std::string& status) {
  comm::WorkerReport last = report();
  last.state = "ended";
  last.leaving = false;  // it goes for another reason
  last.message = status;
  send_last(last);
}

void Attendance::fail(const std::string& message, int suspect, Cause cause) {
  comm::WorkerReport last = report();
  last.state = "failed";
  last.leaving = false;  // a launcher that cleans up sends SIGTERM too
  last.message = message;
  last.suspect = suspect;
  last.by_job = cause == Cause::kJob;
  send_last(last);
}

void Attendance::send_last(const comm::WorkerReport& last) {
  thread_ = {};
  client_->report(last);
  client_->close();
}

}  // namespace distbelief::process
