#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace distbelief::comm {

// While it lives a thread watches that a world gets made, or given back to MPI. MPI waits for the other
// processes without a deadline, and nothing can take a thread out of that: when the time is up the process
// says where it is stuck and ends with 1, and its launcher ends the others.
class StartWatch {
 public:
  static constexpr std::chrono::nanoseconds kNever{0};
  explicit StartWatch(std::chrono::nanoseconds deadline);

  void enter(const char* phase) { phase_ = phase; }  // a literal
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
