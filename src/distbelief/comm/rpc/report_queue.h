#pragma once

#include <deque>
#include <utility>

#include "distbelief/comm/rpc/control.h"

namespace distbelief::comm {

// Reports that wait to be sent. Newer progress replaces older progress; changes of state are all kept, so the
// queue is as long as the number of state changes. Not thread safe.
class ReportQueue {
 public:
  void push(WorkerReport report) {
    if (!reports_.empty() && replaceable(reports_.back(), report)) reports_.pop_back();
    reports_.push_back(std::move(report));
  }
  WorkerReport pop() {
    WorkerReport report = std::move(reports_.front());
    reports_.pop_front();
    return report;
  }
  bool empty() const { return reports_.empty(); }
  void clear() { reports_.clear(); }

 private:
  static bool replaceable(const WorkerReport& old, const WorkerReport& next) {
    const bool kept = old.state == "ready" || old.state == "failed" || old.state == "ended";
    return !kept && old.state == next.state;
  }

  std::deque<WorkerReport> reports_;
};

}  // namespace distbelief::comm
