#include "distbelief/cluster/cohort.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "distbelief/base/host_name.h"
#include "distbelief/cluster/process.h"

namespace distbelief::cluster {
namespace {

std::int64_t largest(const std::map<int, comm::WorkerReport>& reports,
                     std::int64_t comm::WorkerReport::*field) {
  std::int64_t best = -1;
  for (const auto& [rank, report] : reports) best = std::max(best, report.*field);
  return best;
}

// A launcher that ends a cohort sends SIGTERM, as a machine that is reclaimed does, but SIGKILL soon after.
constexpr std::chrono::milliseconds kCleanUp{300};

constexpr int kStopped = 130;  // exit code of workers that were asked to end

}  // namespace

nlohmann::json shown(int rank, const comm::WorkerReport& report) {
  return {{"rank", rank},
          {"pid", report.pid},
          {"host", report.host},
          {"state", report.state},
          {"phase", report.phase},
          {"step", report.step},
          {"lanes", report.lanes},
          {"step_seconds", report.step_seconds},
          {"busy_seconds", report.busy_seconds},
          {"straggler", report.slowness > 1},
          {"slowness", report.slowness}};
}

Cohort::Cohort(int id, Placement placement, int threads, std::unique_ptr<Child> child)
    : id_(id),
      placement_(std::move(placement)),
      threads_(threads),
      child_(std::move(child)) {}

Cohort::~Cohort() {
  for (const auto& [rank, handle] : handles_)
    if (handle >= 0) close(handle);
}

void Cohort::hear(const comm::WorkerReport& report, Clock::time_point now) {
  const auto before = reports_.find(report.rank);
  const bool moved = before == reports_.end() || before->second.step != report.step ||
                     before->second.phase != report.phase || before->second.state != report.state;
  Times& times = times_[report.rank];
  times.heard = now;
  if (moved) times.moved = now;
  if (report.leaving && !times.leaving) times.leaving = now;
  reports_[report.rank] = report;
  // The host name alone does not prove that it runs here: two machines may share it.
  if (!handles_.contains(report.rank) && report.host == host_name() &&
      descends(pid_t(report.pid), child_->pid()))
    handles_[report.rank] = int(syscall(SYS_pidfd_open, pid_t(report.pid), 0));
}

void Cohort::lose(int rank, Clock::time_point now) {
  if (lost_at_) return;  // later losses follow from the first
  lost_rank_ = rank;
  lost_at_ = now;
}

bool Cohort::is_ready() const {
  return int(reports_.size()) == placement_.workers &&
         std::all_of(reports_.begin(), reports_.end(),
                     [](const auto& one) { return one.second.state == "ready"; });
}

std::string Cohort::late() const {
  std::vector<std::string> late;
  for (int rank = 0; rank < placement_.workers; ++rank) {
    const auto report = reports_.find(rank);
    const std::string state = report == reports_.end() ? "not heard of" : report->second.state;
    const std::string& host = placement_.host_of(rank);
    if (state != "ready")
      late.push_back(fmt::format("worker {}{} ({})", rank, host.empty() ? "" : " on " + host, state));
  }
  return fmt::format("{}", fmt::join(late, ", "));
}

bool Cohort::has_handed_over() const {
  const auto first = reports_.find(0);
  return first != reports_.end() && first->second.state == "ended" && first->second.message == "handed over";
}

bool Cohort::has_ended_well() const {
  const auto first = reports_.find(0);
  return first != reports_.end() && first->second.state == "ended";
}

bool Cohort::is_complete() const {
  return has_ended_well() && (reports_.at(0).message == "done" || reports_.at(0).message == "stopped early");
}

bool Cohort::has_forgotten(const std::string& host) const {
  return std::ranges::any_of(reports_, [&](const auto& one) {
    return one.second.forgotten && placement_.host_of(one.first) == host;
  });
}

bool Cohort::has_said_why() const {
  return std::any_of(reports_.begin(), reports_.end(),
                     [](const auto& one) { return one.second.state == "failed"; });
}

std::int64_t Cohort::first_step() const { return largest(reports_, &comm::WorkerReport::from_step); }
std::int64_t Cohort::step() const { return largest(reports_, &comm::WorkerReport::step); }
std::int64_t Cohort::snapshot_step() const { return largest(reports_, &comm::WorkerReport::snapshot_step); }
std::int64_t Cohort::checkpoint_step() const {
  return largest(reports_, &comm::WorkerReport::checkpoint_step);
}

// Uses handles, because a pid could belong to another process by now.
void Cohort::kill_workers() const {
  for (const auto& [rank, handle] : handles_)
    if (handle >= 0) syscall(SYS_pidfd_send_signal, handle, SIGKILL, nullptr, 0);
}

// Also kills descendants: workers have their own process groups, and one that was stopped early has no handle
// here. They can be found as long as their launcher lives.
void Cohort::kill_all() {
  kill_workers();
  kill_descendants(child_->pid());
  child_->signal_group(SIGKILL);
}

bool Cohort::workers_are_gone() const {
  return std::ranges::all_of(reports_, [&](const auto& one) {
    const auto handle = handles_.find(one.first);
    if (handle == handles_.end() || handle->second < 0) return parted_.contains(one.first);
    pollfd state{handle->second, POLLIN, 0};
    return poll(&state, 1, 0) == 1;
  });
}

void Cohort::give_up(const std::string& host, const std::string& why, Clock::time_point now) {
  int first = -1;
  for (int rank = placement_.workers - 1; rank >= 0; --rank)
    if (placement_.host_of(rank) == host) {
      parted_.insert(rank);
      first = rank;
    }
  if (lost_at_) return;
  lost_host_ = host;
  why_ = why;
  lose(first, now);
}

void Cohort::give_up(int rank, const std::string& why, Clock::time_point now) {
  if (lost_at_) return;
  why_ = why;
  lose(rank, now);
}

std::vector<std::string> Cohort::silent_hosts(Clock::time_point now, Clock::duration silence) const {
  std::vector<std::string> silent;
  for (const HostSlots& host : placement_.hosts) {
    bool quiet = true;
    for (int rank = 0; rank < placement_.workers && quiet; ++rank)
      if (placement_.host_of(rank) == host.host)
        quiet = times_.contains(rank) && now - times_.at(rank).heard > silence &&
                reports_.at(rank).state != "ended";
    if (quiet) silent.push_back(host.host);
  }
  return silent;
}

std::optional<int> Cohort::stuck(Clock::time_point now, Clock::duration deadline) const {
  // A worker in an exchange only waits for others, unless it sends no reports at all.
  const auto suspicion = [&](int rank) {
    if (now - times_.at(rank).heard > deadline / 2) return 2;
    return reports_.at(rank).phase == "exchange" ? 0 : 1;
  };
  std::optional<int> found;
  for (const auto& [rank, report] : reports_) {
    const Times& times = times_.at(rank);
    const bool over = report.state == "ended" || report.state == "failed";
    const bool still = report.state == "training" && now - times.moved >= deadline;
    if (over || (!still && now - times.heard < deadline)) continue;
    if (!found || suspicion(rank) > suspicion(*found)) found = rank;
  }
  return found;
}

Cohort::Clock::duration Cohort::unheard(int rank, Clock::time_point now) const {
  const auto times = times_.find(rank);
  return times == times_.end() ? Clock::duration{} : now - times->second.heard;
}

std::optional<Cohort::Silence> Cohort::silent(Clock::time_point now, const Patience& patience) const {
  for (int rank = 0; rank < placement_.workers; ++rank) {
    const auto times = times_.find(rank);
    const bool is_known = times != times_.end();
    if (is_known && reports_.at(rank).state == "ended") continue;
    const Silence silence{.rank = rank, .since = now - (is_known ? times->second.heard : since_)};
    if (silence.since > (is_known ? patience.silence : patience.first_word)) return silence;
  }
  return std::nullopt;
}

void Cohort::excuse(Clock::duration absence, Clock::time_point now) {
  since_ = std::min(now, since_ + absence);
  for (auto& [rank, times] : times_) {
    times.heard = std::min(now, times.heard + absence);
    times.moved = std::min(now, times.moved + absence);
  }
}

bool Cohort::is_leaving(const std::string& host, Clock::time_point now) const {
  return std::ranges::any_of(times_, [&](const auto& one) {
    return one.second.leaving && now - *one.second.leaving > kCleanUp &&
           placement_.host_of(one.first) == host;
  });
}

Loss Cohort::loss() const {
  Loss loss{.rank = lost_rank_, .host = lost_host_, .step = step(), .reason = {}};
  for (const auto& [rank, report] : reports_)
    if (report.state == "failed" && loss.reason.empty() && why_.empty()) {
      loss.rank = report.suspect >= 0 ? report.suspect : rank;
      loss.reason = report.message;
      loss.by_job = report.by_job;
    }
  if (!why_.empty()) loss.reason = why_;
  loss.silent = !why_.empty() && lost_rank_ >= 0;
  loss.exit_code = child_->exit_code();
  if (!loss.reason.empty()) return loss;
  loss.launcher = loss.host.empty() && child_->foreign_signal() > 0;
  if (loss.launcher) loss.rank = -1;
  if (loss.exit_code == kStopped)
    loss.reason = "told to stop by a signal: saved and left";
  else if (loss.exit_code > 128)
    loss.signal = loss.exit_code - 128;
  return loss;
}

}  // namespace distbelief::cluster
