#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "distbelief/comm/rpc/control_client.h"
#include "distbelief/train/trainer.h"
#include "distbelief/train/vitals.h"

namespace distbelief::train {

// A worker's tie to the supervisor: reports its vitals many times a second and takes its orders. When the
// supervisor is gone, it orders the worker to stop, which saves first. A thread of its own, db-attend.
class Attendance {
 public:
  struct Options {
    comm::ControlAddress address;
    int cohort = 1;  // which launch of workers this one belongs to
    int rank = 0;
    Vitals* vitals = nullptr;  // borrowed, as is the next
    Orders* orders = nullptr;
  };
  explicit Attendance(Options options);
  ~Attendance();

  // Says that all is built, and waits for the order to begin. Nothing: this worker is not needed.
  std::optional<Trainer::Start> wait_for_turn(const std::atomic<bool>& interrupted);

  // The last word, after which the tie is ended: how training ended, or why it failed and, if this worker
  // gave up waiting for another, for whom (-1: for nobody).
  void end(const std::string& status);
  void fail(const std::string& message, int suspect);

 private:
  void take(const comm::WorkerOrder& order);
  void run(const std::stop_token& stop);
  comm::WorkerReport report() const;
  void send_last(const comm::WorkerReport& last);

  Options options_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Trainer::Start> turn_;
  std::unique_ptr<comm::ControlClient> client_;
  std::jthread thread_;
};

}  // namespace distbelief::train
