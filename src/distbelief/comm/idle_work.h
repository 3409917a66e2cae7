#pragma once

#include <functional>
#include <memory>

namespace distbelief::comm {

// Work that a thread does while it waits for other threads or ranks, which may themselves wait for that work.
// The waits of this layer (Waiter, Link) call it again and again. It belongs to the thread that made it. That
// thread destroys it; another thread may do so only when it has made sure that the first one no longer waits.
class IdleWork {
 public:
  // Returns whether it did something. Must not wait itself.
  using Work = std::function<bool()>;
  explicit IdleWork(Work work);
  ~IdleWork();
  IdleWork(const IdleWork&) = delete;
  IdleWork& operator=(const IdleWork&) = delete;

  // Runs all work of this thread and returns whether any did something; false when called from such work.
  static bool do_some();
  static bool is_there();

 private:
  struct List;
  static const std::shared_ptr<List>& of_this_thread();
  std::shared_ptr<List> list_;
  Work work_;
};

}  // namespace distbelief::comm
