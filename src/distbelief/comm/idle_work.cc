#include "distbelief/comm/idle_work.h"

#include <algorithm>
#include <vector>

namespace distbelief::comm {

struct IdleWork::List {
  std::vector<IdleWork*> all;
  bool busy = false;
};

const std::shared_ptr<IdleWork::List>& IdleWork::of_this_thread() {
  thread_local const auto list = std::make_shared<List>();
  return list;
}

IdleWork::IdleWork(Work work) : list_(of_this_thread()), work_(std::move(work)) {
  list_->all.push_back(this);
}

IdleWork::~IdleWork() { std::erase(list_->all, this); }

bool IdleWork::is_there() { return !of_this_thread()->all.empty(); }

bool IdleWork::do_some() {
  List& list = *of_this_thread();
  if (list.busy || list.all.empty()) return false;
  struct Turn {
    bool& busy;
    explicit Turn(bool& flag) : busy(flag) { busy = true; }
    ~Turn() { busy = false; }
  } turn(list.busy);
  bool did = false;
  for (IdleWork* each : list.all) did = each->work_() || did;
  return did;
}

}  // namespace distbelief::comm
