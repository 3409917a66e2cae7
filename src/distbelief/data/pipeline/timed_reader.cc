#include "distbelief/data/pipeline/timed_reader.h"

#include <fmt/format.h>
#include <pthread.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>

#include "distbelief/base/error.h"

namespace distbelief::data {

struct TimedReader::Desk {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::optional<Range> wanted;  // set until it has been read
  Batch batch;                  // owned by the thread while `wanted` is set, otherwise by the consumer
  std::exception_ptr failure;   // exception of the last read

  void work(const std::stop_token& stop, const BatchMaker& maker) {
    pthread_setname_np(pthread_self(), "db-reader");
    std::unique_lock lock(mutex);
    while (changed.wait(lock, stop, [this] { return wanted.has_value(); })) {
      const Range range = *wanted;
      lock.unlock();
      std::exception_ptr found;
      try {
        maker.eval_batch(range, batch);
      } catch (...) {
        found = std::current_exception();
      }
      lock.lock();
      failure = found;
      wanted.reset();
      changed.notify_all();
    }
  }
};

TimedReader::TimedReader(const BatchMaker& maker, const Options& options)
    : options_(options),
      desk_(std::make_shared<Desk>()),
      thread_([desk = desk_, &maker](const std::stop_token& stop) { desk->work(stop, maker); }) {}

TimedReader::~TimedReader() {
  if (!is_lost_) return;  // the thread waits for work, so it can end
  thread_.request_stop();
  thread_.detach();
}

const Batch& TimedReader::read(Range range, std::int64_t step) {
  std::unique_lock lock(desk_->mutex);
  if (!is_lost_) {
    desk_->wanted = range;
    desk_->changed.notify_all();
    is_lost_ = !desk_->changed.wait_for(lock, options_.deadline, [this] { return !desk_->wanted; });
  }
  if (is_lost_)
    throw Error(
        ErrorCode::kTimeout,
        fmt::format("samples to test on were not there after {} ms: the data source did not answer; see "
                    "whether its storage is reachable",
                    options_.deadline.count()),
        {.rank = options_.rank, .operation = "validate", .step = step});
  if (desk_->failure) std::rethrow_exception(desk_->failure);
  return desk_->batch;
}

}  // namespace distbelief::data
