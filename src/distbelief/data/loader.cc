#include "distbelief/data/loader.h"

#include <fmt/format.h>
#include <pthread.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <system_error>
#include <thread>
#include <vector>

#include "distbelief/base/error.h"

namespace distbelief::data {
namespace {

Loader::Options checked(const Loader::Options& options) {
  DISTBELIEF_INVARIANT(options.first_lane < options.end_lane && options.end_lane <= options.plan.lanes);
  if (options.plan.samples == 0 || options.plan.batch == 0) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("training needs at least one sample and a batch size of at least 1, there are {} "
                            "samples and train.batch_size is {}",
                            options.plan.samples, options.plan.batch));
  }
  DISTBELIEF_INVARIANT(options.step <= options.plan.steps());
  if (options.threads < 0) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("data.loader_threads must be 0 or more, it is {}", options.threads));
  }
  if (options.prefetch < 1) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("data.prefetch must be 1 or more, it is {}", options.prefetch));
  }
  return options;
}

}  // namespace

// Batches have numbers: 0 is the first delivered. Number n lives in slot n modulo the ring, which has
// one slot more than `prefetch` for the batch that the consumer holds. A slot belongs to the thread that
// claimed it until it is published, then to the consumer until the next() after the one that gave it.
class Loader::Ring {
 public:
  Ring(const BatchMaker& maker, const Options& options);
  ~Ring();
  const Batch& next();

 private:
  struct Slot {
    Batch batch;
    std::exception_ptr failure;
    bool ready = false;  // under mutex_
  };

  Slot& slot(std::uint64_t number) { return slots_[number % slots_.size()]; }
  void start_threads();
  void work(const std::stop_token& stop);
  std::optional<std::uint64_t> claim(const std::stop_token& stop);
  void publish(std::uint64_t number);
  void fill(std::uint64_t number, Batch& batch) const;
  void await(const Slot& wanted, std::unique_lock<std::mutex>& lock);

  const BatchMaker& maker_;
  const Options options_;
  const std::uint64_t prefetch_;
  std::vector<Slot> slots_;

  std::mutex mutex_;                  // guards the five below
  std::condition_variable_any room_;  // loader threads sleep here
  std::condition_variable ready_;     // the consumer sleeps here
  std::uint64_t claimed_ = 0;         // numbers below it are filled or being filled
  std::uint64_t delivered_ = 0;       // numbers below it were given to the consumer
  bool refilling_ = true;             // from half full until full: threads wake once for many batches
  bool consumer_waits_ = false;

  std::vector<std::jthread> threads_;  // last, so that they end first
};

Loader::Ring::Ring(const BatchMaker& maker, const Options& options)
    : maker_(maker),
      options_(checked(options)),
      prefetch_(static_cast<std::uint64_t>(options.prefetch)),
      slots_(options.threads == 0 ? 1 : prefetch_ + 1) {
  start_threads();
}

Loader::Ring::~Ring() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

void Loader::Ring::start_threads() try {
  threads_.reserve(static_cast<std::size_t>(options_.threads));
  for (int i = 0; i < options_.threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
} catch (const std::system_error& error) {
  throw Error(ErrorCode::kUnavailable,
              fmt::format("cannot start {} loader threads: {}; lower data.loader_threads", options_.threads,
                          error.what()));
}

const Batch& Loader::Ring::next() {
  if (options_.threads == 0) {
    fill(delivered_, slots_.front().batch);
    ++delivered_;
    return slots_.front().batch;
  }
  std::unique_lock lock(mutex_);
  Slot& wanted = slot(delivered_);
  if (!wanted.ready) await(wanted, lock);
  if (wanted.failure) std::rethrow_exception(wanted.failure);
  wanted.ready = false;
  ++delivered_;
  const bool wake = !refilling_ && claimed_ - delivered_ <= prefetch_ / 2;
  if (wake) refilling_ = true;
  lock.unlock();
  if (wake) room_.notify_all();
  return wanted.batch;
}

void Loader::Ring::await(const Slot& wanted, std::unique_lock<std::mutex>& lock) {
  consumer_waits_ = true;
  const bool arrived = ready_.wait_for(lock, options_.deadline, [&wanted] { return wanted.ready; });
  consumer_waits_ = false;
  if (arrived) return;
  throw Error(
      ErrorCode::kTimeout,
      fmt::format("batch {} of this loader was not ready after {} ms: the data source did not answer; "
                  "see whether its storage is reachable",
                  delivered_, options_.deadline.count()),
      {.rank = -1, .operation = "load batch", .step = -1});
}

void Loader::Ring::work(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "db-loader");
  while (const std::optional<std::uint64_t> number = claim(stop)) {
    Slot& mine = slot(*number);
    try {
      fill(*number, mine.batch);
    } catch (...) {
      mine.failure = std::current_exception();
    }
    publish(*number);
  }
}

std::optional<std::uint64_t> Loader::Ring::claim(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  room_.wait(lock, stop, [this] { return refilling_; });
  if (stop.stop_requested()) return std::nullopt;
  const std::uint64_t number = claimed_++;
  if (claimed_ - delivered_ == prefetch_) refilling_ = false;
  return number;
}

void Loader::Ring::publish(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  slot(number).ready = true;
  const bool wake = consumer_waits_ && number == delivered_;
  lock.unlock();
  if (wake) ready_.notify_one();
}

void Loader::Ring::fill(std::uint64_t number, Batch& batch) const {
  const EpochPlan& plan = options_.plan;
  const std::uint64_t lanes = options_.end_lane - options_.first_lane;
  const std::uint64_t steps_done = options_.step + number / lanes;
  const std::uint64_t epoch = options_.epoch + steps_done / plan.steps();
  batch.step = steps_done % plan.steps();
  batch.lane = options_.first_lane + number % lanes;
  // Made anew for each batch: it costs less than sharing one between threads.
  const Permutation order(plan.samples, options_.seed, epoch);
  maker_.train_batch(order, epoch, plan.lane_range(batch.step, batch.lane), batch);
}

Loader::Loader(const BatchMaker& maker, Options options) : ring_(std::make_unique<Ring>(maker, options)) {}

Loader::~Loader() = default;

const Batch& Loader::next() { return ring_->next(); }

}  // namespace distbelief::data
