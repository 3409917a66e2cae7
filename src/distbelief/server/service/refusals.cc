#include "distbelief/server/service/refusals.h"

#include <pthread.h>

#include <utility>

namespace distbelief::server {

Refusals::Refusals(const Options& options)
    : options_(options),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

Refusals::~Refusals() {
  thread_.request_stop();
  thread_.join();
  for (Late& one : late_) one.request.refuse(one.code, one.why);
}

std::int64_t Refusals::add(comm::ExchangeServer::Request request, ErrorCode code, const std::string& why) {
  std::int64_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    count = ++counts_[request.peer().connection];
    if (count > options_.at_once) {
      request.drop_payload();
      late_.push_back({Clock::now() + options_.delay, std::move(request), code, why});
      changed_.notify_one();
      return count;
    }
  }
  request.refuse(code, why);
  return count;
}

void Refusals::forget(std::uint64_t connection) {
  const std::lock_guard lock(mutex_);
  counts_.erase(connection);
}

void Refusals::run(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "db-refuse");
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (late_.empty()) {
      changed_.wait(lock, stop, [&] { return !late_.empty(); });
      continue;
    }
    const Clock::time_point due = late_.front().due;
    if (Clock::now() < due) {
      changed_.wait_until(lock, stop, due, [] { return false; });
      continue;
    }
    Late one = std::move(late_.front());
    late_.pop_front();
    lock.unlock();
    one.request.refuse(one.code, one.why);
    lock.lock();
  }
}

}  // namespace distbelief::server
