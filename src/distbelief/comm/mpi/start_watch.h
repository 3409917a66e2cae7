#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace distbelief::comm {

// Watches, with a thread, that the world is made, or handed back to MPI, before a deadline. MPI waits for
// other processes without a deadline, and a thread cannot be taken out of that wait. When the time is up the
// process prints where it is stuck and exits with 1; its launcher ends the others.
class StartWatch {
 public:
  static constexpr std::chrono::nanoseconds kNever{0};
  explicit StartWatch(std::chrono::nanoseconds deadline);

  void enter(const char* phase) { phase_ = phase; }  // a string literal
  void set_rank(int rank) { rank_ = rank; }          // once it is known

 private:
  void run(const std::stop_token& stop, std::chrono::nanoseconds deadline);

  std::atomic<const char*> phase_{"the start"};
  std::atomic<int> rank_{-1};
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace distbelief::comm
