#include "distbelief/comm/mpi/start_watch.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "distbelief/base/host_name.h"

namespace distbelief::comm {

StartWatch::StartWatch(std::chrono::nanoseconds deadline) {
  if (deadline == kNever) return;
  thread_ = std::jthread([this, deadline](const std::stop_token& stop) { run(stop, deadline); });
  pthread_setname_np(thread_.native_handle(), "db-start");
}

void StartWatch::run(const std::stop_token& stop, std::chrono::nanoseconds deadline) {
  std::unique_lock lock(mutex_);
  ended_.wait_for(lock, stop, deadline, [] { return false; });
  if (stop.stop_requested()) return;
  const int rank = rank_;
  fmt::print(
      stderr,
      "distbelief: {}: {} did not end within {:.0f} s, so not every worker of this run has come to it; is "
      "one stopped, or its host unreachable? This process ends. How long to wait, a minute at least, is set "
      "by "
      "parallel.deadline_seconds of a job, by World::Options::deadline of a program on the library, whose "
      "stuck_start = kWaits waits on\n",
      rank >= 0 ? fmt::format("worker {}", rank) : fmt::format("process {} on {}", getpid(), host_name()),
      phase_.load(), std::chrono::duration<double>(deadline).count());
  std::fflush(stderr);
  std::_Exit(1);
}

}  // namespace distbelief::comm
