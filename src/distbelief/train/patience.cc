#include "distbelief/train/patience.h"

#include <pthread.h>

#include <chrono>
#include <future>

#include "distbelief/comm/communicator.h"

namespace distbelief::train {

void do_patiently(World& world, const std::function<void()>& work) {
  constexpr std::chrono::milliseconds kMoment{250};
  std::future<void> done = std::async(std::launch::async, [&work] {
    pthread_setname_np(pthread_self(), "db-patience");
    work();
  });
  for (std::int64_t busy = 1; busy > 0;) {
    busy = done.wait_for(kMoment) == std::future_status::ready ? 0 : 1;
    world.communicator().allreduce(comm::view(&busy, 1), comm::ReduceOp::kSum);
  }
  done.get();
}

}  // namespace distbelief::train
