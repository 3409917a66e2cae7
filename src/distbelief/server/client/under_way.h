#pragma once

#include <condition_variable>
#include <mutex>

namespace distbelief::server {

// Limits transfers in flight to a backup, so that a server that fills another does not queue all of its state
// in the link at once. The caller waits for all before it destroys the limiter. Thread safe; begin() and
// wait_for_all() block.
class UnderWay {
 public:
  explicit UnderWay(int most) : most_(most) {}
  void begin() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ < most_; });
    ++count_;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    --count_;
    changed_.notify_all();
  }
  void wait_for_all() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ == 0; });
  }

 private:
  int most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

}  // namespace distbelief::server
