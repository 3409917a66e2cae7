#include "distbelief/cli/interruption.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace distbelief::cli {
namespace {

constexpr int kInterrupted = 130;
constexpr std::chrono::milliseconds kForRemoval{1500};

// A global, because a signal handler can reach nothing else.
std::atomic<bool> noted{false};
sem_t signalled;

struct Begun {
  std::mutex mutex;
  int watches = 0;
  std::vector<const std::function<void()>*> removals;
};

// Never destroyed, because a signal may come while the program ends.
Begun& begun() {
  static Begun* const all = new Begun;
  return *all;
}

void note_signal(int) {
  noted.store(true);
  sem_post(&signalled);
}

void remove_unfinished() {
  for (const auto* remove : begun().removals) try {
      (*remove)();
    } catch (const std::exception&) {  // the program ends in any case
    }
}

// Keeps the lock when it ends the program, so that nothing new can begin. Does not wait for a file server
// that does not answer.
void end_unless_watched() {
  const std::lock_guard lock(begun().mutex);
  if (begun().watches > 0) return;
  if (!begun().removals.empty()) {
    std::packaged_task<void()> removal(remove_unfinished);
    const std::future<void> done = removal.get_future();
    std::thread(std::move(removal)).detach();
    done.wait_for(kForRemoval);
  }
  _exit(kInterrupted);
}

bool is_ignored(int number) {
  struct sigaction now {};
  return sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

// A separate thread handles the signals: a main thread that waits for an unresponsive file server would not
// get to its handler.
void catch_signals() {
  sem_init(&signalled, 0, 0);
  struct sigaction action {};
  action.sa_handler = note_signal;
  sigset_t caught;
  sigemptyset(&caught);
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
    if (number == SIGHUP && is_ignored(number)) continue;
    sigaction(number, &action, nullptr);
    sigaddset(&caught, number);
  }
  pthread_sigmask(SIG_UNBLOCK, &caught, nullptr);  // the parent process may have blocked them
  std::thread([] {
    pthread_setname_np(pthread_self(), "db-signals");
    for (;;)
      if (sem_wait(&signalled) == 0) end_unless_watched();
  }).detach();
  pthread_sigmask(SIG_BLOCK, &caught, nullptr);
}

bool was_interrupted() { return noted.load(); }

void throw_if_interrupted() {
  if (was_interrupted()) throw Interrupted{};
}

Watch::Watch() {
  const std::lock_guard lock(begun().mutex);
  ++begun().watches;
}

Watch::~Watch() {
  const std::lock_guard lock(begun().mutex);
  --begun().watches;
}

const std::atomic<bool>& Watch::interrupted() const { return noted; }

Unfinished::Unfinished(std::function<void()> remove) : remove_(std::move(remove)) {
  const std::lock_guard lock(begun().mutex);
  begun().removals.push_back(&remove_);
}

Unfinished::~Unfinished() {
  const std::lock_guard lock(begun().mutex);
  std::erase(begun().removals, &remove_);
}

}  // namespace distbelief::cli
