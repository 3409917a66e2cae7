#pragma once

#include <atomic>
#include <functional>

namespace distbelief::cli {

// SIGINT, SIGTERM, SIGUSR1 and SIGHUP from here on: they are noted for who holds a Watch; while nobody does
// they end the program at once with exit code 130, whatever its threads wait for. A SIGHUP that is ignored
// (nohup) stays so. Called before the program has threads; starts one.
void catch_signals();

bool was_interrupted();

// Ends the command with exit code 130, and brings what it has begun to an end on the way.
struct Interrupted {};
void throw_if_interrupted();

// Held by who looks at `interrupted` again and again, and has something to bring to an end. Who ends a watch
// looks once more: a signal that was only noted is not told again.
class Watch {
 public:
  Watch();
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  const std::atomic<bool>& interrupted() const;
};

// What is under way, and cannot look: when a signal ends the program, `remove` is called before, on another
// thread.
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
