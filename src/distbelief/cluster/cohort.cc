#include "distbelief/cluster/cohort.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace distbelief::cluster {
namespace {

std::int64_t largest(const std::map<int, comm::WorkerReport>& reports,
                     std::int64_t comm::WorkerReport::*field) {
  std::int64_t best = -1;
  for (const auto& [rank, report] : reports) best = std::max(best, report.*field);
  return best;
}

}  // namespace

Cohort::Cohort(int id, int workers, std::unique_ptr<Child> child)
    : id_(id),
      workers_(workers),
      child_(std::move(child)) {}

Cohort::~Cohort() {
  for (const auto& [rank, handle] : handles_)
    if (handle >= 0) close(handle);
}

void Cohort::hear(const comm::WorkerReport& report) {
  reports_[report.rank] = report;
  if (!handles_.contains(report.rank))
    handles_[report.rank] = int(syscall(SYS_pidfd_open, pid_t(report.pid), 0));
}

void Cohort::lose(int rank, Clock::time_point now) {
  if (lost_at_) return;  // the others follow it
  lost_rank_ = rank;
  lost_at_ = now;
}

bool Cohort::is_ready() const {
  return int(reports_.size()) == workers_ &&
         std::all_of(reports_.begin(), reports_.end(),
                     [](const auto& one) { return one.second.state == "ready"; });
}

bool Cohort::has_handed_over() const {
  const auto first = reports_.find(0);
  return first != reports_.end() && first->second.state == "ended" && first->second.message == "handed over";
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

// By handle: a number could belong to another process by now.
void Cohort::kill_workers() const {
  for (const auto& [rank, handle] : handles_)
    if (handle >= 0) syscall(SYS_pidfd_send_signal, handle, SIGKILL, nullptr, 0);
}

bool Cohort::workers_are_gone() const {
  return std::all_of(handles_.begin(), handles_.end(), [](const auto& one) {
    pollfd state{one.second, POLLIN, 0};
    return one.second < 0 || poll(&state, 1, 0) == 1;
  });
}

Loss Cohort::loss() const {
  Loss loss{.rank = lost_rank_, .step = step(), .reason = {}};
  for (const auto& [rank, report] : reports_)
    if (report.state == "failed" && loss.reason.empty()) {
      loss.rank = report.suspect >= 0 ? report.suspect : rank;
      loss.reason = report.message;
    }
  loss.exit_code = child_->exit_code();
  if (loss.reason.empty() && loss.exit_code > 128) loss.signal = loss.exit_code - 128;
  return loss;
}

}  // namespace distbelief::cluster
