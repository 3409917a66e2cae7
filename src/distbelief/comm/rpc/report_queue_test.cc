#include "distbelief/comm/rpc/report_queue.h"

#include <gtest/gtest.h>

namespace distbelief::comm {
namespace {

WorkerReport report(const std::string& state, std::int64_t step) { return {.state = state, .step = step}; }

std::vector<std::pair<std::string, std::int64_t>> drain(ReportQueue& queue) {
  std::vector<std::pair<std::string, std::int64_t>> all;
  while (!queue.empty()) {
    const WorkerReport next = queue.pop();
    all.emplace_back(next.state, next.step);
  }
  return all;
}

using Expected = std::vector<std::pair<std::string, std::int64_t>>;

TEST(ReportQueue, KeepsOnlyTheNewestProgress) {
  ReportQueue queue;
  for (int step = 0; step < 1000; ++step) queue.push(report("training", step));
  EXPECT_EQ(drain(queue), (Expected{{"training", 999}}));
}

TEST(ReportQueue, KeepsEveryChangeOfState) {
  ReportQueue queue;
  for (const char* state : {"starting", "ready", "training", "training", "paused", "training", "ended"})
    queue.push(report(state, 1));
  EXPECT_EQ(
      drain(queue),
      (Expected{
          {"starting", 1}, {"ready", 1}, {"training", 1}, {"paused", 1}, {"training", 1}, {"ended", 1}}));
}

TEST(ReportQueue, KeepsEveryReadyFailedAndEnded) {
  for (const char* state : {"ready", "failed", "ended"}) {
    ReportQueue queue;
    queue.push(report(state, 1));
    queue.push(report(state, 2));
    EXPECT_EQ(drain(queue), (Expected{{state, 1}, {state, 2}}));
  }
}

}  // namespace
}  // namespace distbelief::comm
