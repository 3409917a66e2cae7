#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace distbelief::cluster {

// A child in a process group of its own, so that Ctrl-C reaches it only through us. Killed, group and all,
// and waited for when the object goes before it has ended.
class Child {
 public:
  struct Options {
    std::vector<std::string> command;
    int output = -1;                         // a descriptor for its standard output; -1: ours
    bool quiet = false;                      // its standard error goes nowhere
    int death_signal = 15;                   // what it gets when we die
    std::vector<std::string> environment{};  // NAME=value, besides ours
  };
  explicit Child(const Options& options);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Sleeps until it has ended, a signal came or the time is up: a supervisor takes no core from a worker.
  bool wait_ended(std::chrono::milliseconds at_most);
  bool ended() { return wait_ended(std::chrono::milliseconds(0)); }
  void signal_one(int number);
  void signal_group(int number);
  pid_t pid() const { return pid_; }
  int exit_code() const;  // 128 + the signal that ended it
  // The signal that somebody else ended it with, after it has ended; 0: none, or we have signalled it too.
  int foreign_signal() const;

 private:
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
  bool signalled_ = false;  // by us
};

// Ends a child in stages, counted from when this object was made: asks (SIGUSR1, which a launcher hands to
// its workers), ends (SIGTERM) after a second, kills a quarter later. Press again and again until it is
// gone.
class Farewell {
 public:
  void press(Child& child);

 private:
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  int stage_ = 0;
};

// Ends all of them so, at the same time. Blocks until they are gone.
void end_together(std::span<Child* const> children);

// What a command prints on standard output, when it ends well before the deadline; nothing otherwise. It is
// ended as soon as `interrupted`.
std::optional<std::string> output_of(const std::vector<std::string>& command,
                                     std::chrono::milliseconds deadline,
                                     const std::atomic<bool>& interrupted);

// Waits for the child; once `interrupted`, presses it to end.
void wait_for(Child& child, const std::atomic<bool>& interrupted);

}  // namespace distbelief::cluster
