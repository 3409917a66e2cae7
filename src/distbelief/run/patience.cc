#include "distbelief/run/patience.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <future>

#include "distbelief/comm/communicator.h"

namespace distbelief::run {

void do_patiently(World& world, const std::function<void()>& work) {
  const auto moment =
      std::min<std::chrono::nanoseconds>(std::chrono::milliseconds(250), world.options().deadline / 4);
  std::future<void> done = std::async(std::launch::async, [&work] {
    pthread_setname_np(pthread_self(), "db-patience");
    work();
  });
  for (std::int64_t busy = 1; busy > 0;) {
    busy = done.wait_for(moment) == std::future_status::ready ? 0 : 1;
    world.communicator().allreduce(comm::view(&busy, 1), comm::ReduceOp::kSum);
  }
  done.get();
}

}  // namespace distbelief::run
