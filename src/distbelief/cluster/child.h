#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace distbelief::cluster {

// A child process in its own process group, so that it does not get Ctrl-C from the terminal. The destructor
// kills the whole group and waits for it if it has not ended.
class Child {
 public:
  struct Options {
    std::vector<std::string> command;
    int output = -1;                         // descriptor for its standard output; -1: inherited
    bool quiet = false;                      // discards its standard error
    int death_signal = 15;                   // signal that it gets when this process dies
    std::vector<std::string> environment{};  // NAME=value, added to this process's environment
  };
  explicit Child(const Options& options);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Sleeps until the child has ended, a signal has arrived or the time is up, so that a supervisor takes no
  // core from a worker.
  bool wait_ended(std::chrono::milliseconds at_most);
  bool ended() { return wait_ended(std::chrono::milliseconds(0)); }
  void signal_one(int number);
  void signal_group(int number);
  pid_t pid() const { return pid_; }
  int exit_code() const;  // or 128 + the signal that ended it
  // The signal from elsewhere that ended the child; call after it has ended. 0: none, or this process has
  // signalled it too.
  int foreign_signal() const;

 private:
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
  bool signalled_ = false;  // by this process
};

// Ends a child in stages, timed from this object's construction: asks (SIGUSR1, which a launcher passes to
// its workers), sends SIGTERM after a second, and SIGKILL a quarter of a second later. Call press()
// repeatedly until the child is gone.
class Farewell {
 public:
  void press(Child& child);

 private:
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  int stage_ = 0;
};

// Ends all children this way at the same time. Blocks until they are gone.
void end_together(std::span<Child* const> children);

// The standard output of a command that succeeds before the deadline; otherwise empty. Ends the command as
// soon as `interrupted`.
std::optional<std::string> output_of(const std::vector<std::string>& command,
                                     std::chrono::milliseconds deadline,
                                     const std::atomic<bool>& interrupted);

// Waits for the child; once `interrupted`, ends it with a Farewell.
void wait_for(Child& child, const std::atomic<bool>& interrupted);

}  // namespace distbelief::cluster
