#pragma once

#include <functional>
#include <memory>

namespace distbelief::comm {

// What a thread does while it waits for others, who may themselves wait for just that. The waits of this
// layer (Waiter, Link) call it again and again. It belongs to the thread that made it; whoever ends it is
// that thread, or sees to it that the thread waits no more.
class IdleWork {
 public:
  // Whether it did something. Must not wait itself.
  using Work = std::function<bool()>;
  explicit IdleWork(Work work);
  ~IdleWork();
  IdleWork(const IdleWork&) = delete;
  IdleWork& operator=(const IdleWork&) = delete;

  // All that this thread has to do. Whether any did something; false when called from such work.
  static bool do_some();
  static bool is_there();

 private:
  struct List;
  static const std::shared_ptr<List>& of_this_thread();
  std::shared_ptr<List> list_;
  Work work_;
};

}  // namespace distbelief::comm
