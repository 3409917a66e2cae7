#pragma once

#include <atomic>
#include <functional>

namespace distbelief::cli {

// Handles SIGINT, SIGTERM, SIGUSR1 and SIGHUP from here on. While a Watch exists, a signal sets
// `interrupted`; otherwise it ends the program at once with exit code 130, even if its threads block. An
// ignored SIGHUP (nohup) stays ignored. Call it before the program has threads; starts one.
void catch_signals();

bool was_interrupted();

// Exception that ends the command with exit code 130 and unwinds what it has begun.
struct Interrupted {};
void throw_if_interrupted();

// RAII guard for code that has work to finish; the holder polls `interrupted()`. Check once more after
// destroying it, because a signal during the watch is not delivered again.
class Watch {
 public:
  Watch();
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  const std::atomic<bool>& interrupted() const;
};

// RAII registration of unfinished work that cannot poll: when a signal ends the program, `remove` is called
// first, on another thread.
class Unfinished {
 public:
  explicit Unfinished(std::function<void()> remove);
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

 private:
  std::function<void()> remove_;
};

}  // namespace distbelief::cli
