#include "distbelief/comm/idle_work.h"

#include <gtest/gtest.h>

#include <thread>

#include "distbelief/comm/host/signal.h"

namespace distbelief::comm {
namespace {

TEST(IdleWork, IsDoneWhileItsThreadWaits) {
  AbortRecord abort;
  Signal answer, asked;
  const Waiter waiter(abort, std::chrono::seconds(20), std::chrono::nanoseconds(0));
  std::jthread other([&] {  // answers only when asked
    waiter.wait(asked, 1, {.rank = 0, .operation = "ask"});
    answer.raise(1);
  });
  const IdleWork work([&] {
    if (asked.reached(1)) return false;
    asked.raise(1);
    return true;
  });
  waiter.wait(answer, 1, {.rank = 1, .operation = "answer"});
  EXPECT_TRUE(asked.reached(1));
}

TEST(IdleWork, IsItsThreadsOwnAndNeverNested) {
  int done = 0;
  const IdleWork work([&] {
    ++done;
    return IdleWork::do_some();
  });
  EXPECT_TRUE(IdleWork::is_there());
  EXPECT_FALSE(IdleWork::do_some());
  EXPECT_EQ(done, 1);
  std::jthread([&] {
    EXPECT_FALSE(IdleWork::is_there());
    EXPECT_FALSE(IdleWork::do_some());
  }).join();
  EXPECT_EQ(done, 1);
}

TEST(IdleWork, EndsWithItsObject) {
  {
    const IdleWork work([] { return true; });
  }
  EXPECT_FALSE(IdleWork::is_there());
}

}  // namespace
}  // namespace distbelief::comm
