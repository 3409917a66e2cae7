#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "distbelief/base/error.h"
#include "distbelief/comm/rpc/control_server.h"

namespace distbelief::testing {

// Passes values from callbacks to the test's thread.
template <class T>
class Mailbox {
 public:
  void put(T value) {
    {
      const std::lock_guard lock(mutex_);
      values_.push_back(std::move(value));
    }
    arrived_.notify_all();
  }
  // Returns nothing when the deadline passes.
  std::optional<T> take(std::chrono::milliseconds deadline = std::chrono::seconds(20)) {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, deadline, [&] { return !values_.empty(); })) return std::nullopt;
    T value = std::move(values_.front());
    values_.pop_front();
    return value;
  }
  bool empty() const {
    const std::lock_guard lock(mutex_);
    return values_.empty();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<T> values_;
};

class RecordingHandler final : public comm::ControlServer::Handler {
 public:
  using Key = std::pair<int, int>;  // generation, rank

  void report(const comm::WorkerReport& report) override { reports.put(report); }
  void lost(int generation, int rank) override { lost_workers.put({generation, rank}); }
  // Echoes the command; "throw" throws.
  comm::CommandReply command(const comm::Command& command) override {
    if (command.name == "throw") throw Error(ErrorCode::kBadInput, "no such run");
    return {.ok = true, .text = command.name + " " + std::to_string(command.value) + " " + command.text};
  }

  Mailbox<comm::WorkerReport> reports;
  Mailbox<Key> lost_workers;
};

}  // namespace distbelief::testing
