#include "distbelief/checkpoint/writer.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <utility>

namespace distbelief::checkpoint {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kNiceness = 10;

// The cores belong to training. A failure to lower the priority does not stop the save.
void step_back() {
  const auto thread = static_cast<id_t>(gettid());
  setpriority(PRIO_PROCESS, thread, std::max(getpriority(PRIO_PROCESS, thread), kNiceness));
}

// Signals are for the main thread and would interrupt the system calls here.
void leave_signals_to_others() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

Writer::Writer(Options options)
    : store_(std::move(options.folder), std::move(options.store)),
      keep_(options.keep),
      thread_([this](std::stop_token stop) { run(std::move(stop)); }) {
  pthread_setname_np(thread_.native_handle(), "db-checkpoint");
}

Writer::~Writer() = default;

void Writer::save(const Snapshot& snapshot, Kind kind) {
  wait();
  snapshot_ = snapshot;
  snapshot_.tensors = copy_.assign(snapshot.tensors);
  kind_ = kind;
  {
    const std::lock_guard lock(mutex_);
    busy_ = true;
  }
  changed_.notify_all();
}

void Writer::save_in_place(const Snapshot& snapshot, Kind kind) {
  wait();
  snapshot_ = snapshot;
  kind_ = kind;
  Outcome outcome = perform();
  const std::lock_guard lock(mutex_);
  keep(std::move(outcome));
}

void Writer::keep(Outcome outcome) {
  outcomes_.push_back(std::move(outcome));
  has_outcome_.store(true, std::memory_order_release);
}

std::optional<Writer::Outcome> Writer::take_outcome() {
  if (!has_outcome_.load(std::memory_order_acquire)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  Outcome outcome = std::move(outcomes_.front());
  outcomes_.pop_front();
  has_outcome_.store(!outcomes_.empty(), std::memory_order_release);
  return outcome;
}

void Writer::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
}

void Writer::run(std::stop_token stop) {
  step_back();
  leave_signals_to_others();
  std::unique_lock lock(mutex_);
  // Finishes a save that was handed over before the stop request.
  while (changed_.wait(lock, stop, [this] { return busy_; })) {
    lock.unlock();
    Outcome outcome = perform();
    lock.lock();
    keep(std::move(outcome));
    busy_ = false;
    changed_.notify_all();
  }
}

Writer::Outcome Writer::perform() {
  const auto begin = Clock::now();
  Outcome outcome;
  outcome.step = snapshot_.step;
  try {
    store_.save(snapshot_);
    outcome.on_disk = true;
    if (snapshot_.part == 0) {
      if (kind_ == Kind::kBest) store_.mark_best({.step = snapshot_.step, .folder = {}});
      store_.prune(keep_);
    }
  } catch (const Error& error) {
    outcome.failure = error;
  } catch (const std::exception& error) {
    outcome.failure = Error(ErrorCode::kInternal, error.what());
  }
  outcome.seconds = Clock::now() - begin;
  return outcome;
}

}  // namespace distbelief::checkpoint
