#pragma once

#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "distbelief/comm/rpc/control_client.h"
#include "distbelief/run/vitals.h"
#include "distbelief/train/run_keeper.h"

namespace distbelief::process {

// A worker's tie to the supervisor: reports its vitals many times a second and takes its orders. When the
// supervisor is gone, it orders the worker to stop, which saves first. A thread of its own, db-attend.
class Attendance {
 public:
  struct Options {
    comm::ControlAddress address;
    int cohort = 1;  // which launch of workers this one belongs to
    int rank = 0;
    run::Vitals* vitals = nullptr;  // borrowed, as is the next
    run::Orders* orders = nullptr;
    std::chrono::milliseconds deadline{120'000};  // for what is no step: a validation, say
    const std::atomic<bool>* leaving = nullptr;   // set when this host is about to go; may be null
    // Called on db-attend when the supervisor is gone and training gets nowhere, as behind a cut link, or
    // when this worker belongs to no run any more; then the process ends.
    std::function<void()> abandon{};
    std::shared_ptr<spdlog::logger> log = spdlog::default_logger();
  };
  explicit Attendance(Options options);
  ~Attendance();

  // Says that all is built, and waits for the order to begin. Nothing: this worker is not needed.
  std::optional<train::RunStart> wait_for_turn(const std::atomic<bool>& interrupted);

  bool is_alone() const { return alone_; }  // the supervisor is gone

  // The last word, after which the tie is ended: how training ended, or why it failed and which worker is to
  // blame, such as one that was waited for in vain (-1: nobody in particular).
  void end(const std::string& status);
  enum class Cause { kAny, kJob };  // kJob: the job is at fault, and would fail again
  void fail(const std::string& message, int suspect, Cause cause = Cause::kAny);

 private:
  void take(const comm::WorkerOrder& order);
  void run(const std::stop_token& stop);
  void look_for_end();
  [[noreturn]] void abandon(const std::string& why);
  comm::WorkerReport report() const;
  void send_last(const comm::WorkerReport& last);

  Options options_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<train::RunStart> turn_;
  std::atomic<bool> alone_{false};                // the supervisor is gone
  std::atomic<bool> dismissed_{false};            // it knows nothing of this worker's cohort
  std::pair<std::int64_t, const char*> shown_{};  // step and state when they were last new, and that time
  std::chrono::steady_clock::time_point shown_at_{};
  std::unique_ptr<comm::ControlClient> client_;
  std::jthread thread_;
};

}  // namespace distbelief::process
