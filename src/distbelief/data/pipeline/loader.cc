#include "distbelief/data/pipeline/loader.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
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

using Clock = std::chrono::steady_clock;

Loader::Options checked(const Loader::Options& options) {
  DISTBELIEF_INVARIANT(options.first_lane < options.end_lane && options.end_lane <= options.plan.lanes);
  for (const std::uint64_t lane : options.lanes) DISTBELIEF_INVARIANT(lane < options.plan.lanes);
  if (options.plan.samples == 0 || options.plan.batch == 0) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("training needs at least one sample and a batch size of at least 1, there are {} "
                            "samples and train.batch_size is {}",
                            options.plan.samples, options.plan.batch));
  }
  DISTBELIEF_INVARIANT(options.step <= options.plan.steps());
  if (options.threads < 0) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("data.loader_threads must be 0 or more, it is {}", options.threads),
                {.key = "data.loader_threads"});
  }
  if (options.prefetch < 1) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("data.prefetch must be 1 or more, it is {}", options.prefetch),
                {.key = "data.prefetch"});
  }
  return options;
}

// The typical duration of a fill: the median of the last few, which ignores occasional preemption of a
// thread.
class FillTimes {
 public:
  void add(std::chrono::nanoseconds took) { last_[next_++ % last_.size()] = took; }
  bool known() const { return next_ >= last_.size(); }
  std::chrono::nanoseconds typical() const {
    auto sorted = last_;
    std::nth_element(sorted.begin(), sorted.begin() + sorted.size() / 2, sorted.end());
    return sorted[sorted.size() / 2];
  }

 private:
  std::array<std::chrono::nanoseconds, 7> last_{};
  std::size_t next_ = 0;
};

}  // namespace

std::chrono::nanoseconds own_below(int carriers) {
  const bool spare_core = unsigned(carriers) < std::thread::hardware_concurrency();
  return spare_core ? std::chrono::microseconds(0) : std::chrono::microseconds(50);
}

// Batches are numbered from 0 in the order of delivery. Batch n uses slot n modulo the ring size; the ring
// has one slot more than `prefetch`, for the batch that the consumer holds. A slot belongs to the thread that
// claimed it until it is published, then to the consumer until the next() after the one that returned it.
class Loader::Ring {
 public:
  Ring(const BatchMaker& maker, const Options& options);
  ~Ring();
  const Batch& next();
  void announce(std::uint64_t step);
  void skip(std::uint64_t steps);

 private:
  struct Slot {
    Batch batch;
    std::exception_ptr failure;
    bool ready = false;  // guarded by mutex_
  };

  Slot& slot(std::uint64_t number) { return slots_[number % slots_.size()]; }
  void start_threads();
  void work(const std::stop_token& stop);
  std::optional<std::uint64_t> claim(const std::stop_token& stop);
  void publish(std::uint64_t number, std::chrono::nanoseconds took);
  void fill(std::uint64_t number, Batch& batch);
  std::uint64_t lanes() const;
  std::uint64_t step_of(std::uint64_t number);
  std::uint64_t lane_of(std::uint64_t number) const;
  bool may_claim() const;
  const Batch& fill_alone(Slot& turn, std::unique_lock<std::mutex>& lock);
  void remember(std::chrono::nanoseconds took);
  void await(const Slot& wanted, std::unique_lock<std::mutex>& lock);

  const BatchMaker& maker_;
  const Options options_;
  const std::uint64_t prefetch_;
  std::vector<Slot> slots_;
  Batch own_;  // filled by the consumer: always the same memory, which stays in its cache

  std::mutex mutex_;                  // guards the nine members below
  std::condition_variable_any room_;  // loader threads sleep here
  std::condition_variable ready_;     // the consumer sleeps here
  std::uint64_t claimed_ = 0;         // smaller numbers are filled or being filled
  std::uint64_t delivered_ = 0;       // smaller numbers were given to the consumer
  bool refilling_ = true;             // from half full until full, so that threads wake once for many batches
  bool consumer_waits_ = false;
  FillTimes fill_times_;
  bool alone_ = false;              // the consumer fills the batches, because they are cheap
  std::deque<std::uint64_t> told_;  // announced steps
  std::uint64_t told_before_ = 0;   // number of delivered steps dropped from told_

  std::vector<std::jthread> threads_;  // last, so that the threads end first
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
  if (alone_ && claimed_ == delivered_) return fill_alone(wanted, lock);
  if (!wanted.ready) await(wanted, lock);
  if (wanted.failure) std::rethrow_exception(wanted.failure);
  wanted.ready = false;
  ++delivered_;
  const bool wake = !alone_ && !refilling_ && claimed_ - delivered_ <= prefetch_ / 2;
  if (wake) refilling_ = true;
  lock.unlock();
  if (wake) room_.notify_all();
  return wanted.batch;
}

const Batch& Loader::Ring::fill_alone(Slot& turn, std::unique_lock<std::mutex>& lock) {
  ++claimed_;
  lock.unlock();
  const auto begin = Clock::now();
  try {
    fill(delivered_, own_);
  } catch (...) {
    lock.lock();
    turn.failure = std::current_exception();
    turn.ready = true;
    throw;
  }
  const auto took = Clock::now() - begin;
  lock.lock();
  ++delivered_;
  remember(took);
  const bool wake = !alone_;
  if (wake) refilling_ = true;
  lock.unlock();
  if (wake) room_.notify_all();
  return own_;
}

void Loader::Ring::remember(std::chrono::nanoseconds took) {
  fill_times_.add(took);
  alone_ = fill_times_.known() && fill_times_.typical() < options_.own_below;
}

void Loader::Ring::await(const Slot& wanted, std::unique_lock<std::mutex>& lock) {
  consumer_waits_ = true;
  const bool arrived = ready_.wait_for(lock, options_.deadline, [&wanted] { return wanted.ready; });
  consumer_waits_ = false;
  if (arrived) return;
  const std::uint64_t number = delivered_;
  lock.unlock();
  throw Error(
      ErrorCode::kTimeout,
      fmt::format(
          "the batch of lane {} was not ready after {} ms: the data source did not answer; see whether "
          "its storage is reachable",
          lane_of(number), options_.deadline.count()),
      {.rank = options_.rank, .operation = "load batch", .step = std::int64_t(step_of(number))});
}

void Loader::Ring::work(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "db-loader");
  while (const std::optional<std::uint64_t> number = claim(stop)) {
    Slot& mine = slot(*number);
    const auto begin = Clock::now();
    try {
      fill(*number, mine.batch);
    } catch (...) {
      mine.failure = std::current_exception();
    }
    publish(*number, Clock::now() - begin);
  }
}

std::optional<std::uint64_t> Loader::Ring::claim(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  room_.wait(lock, stop, [this] { return may_claim(); });
  if (stop.stop_requested()) return std::nullopt;
  const std::uint64_t number = claimed_++;
  if (claimed_ - delivered_ == prefetch_) refilling_ = false;
  return number;
}

void Loader::Ring::publish(std::uint64_t number, std::chrono::nanoseconds took) {
  std::unique_lock lock(mutex_);
  remember(took);
  slot(number).ready = true;
  const bool wake = consumer_waits_ && number == delivered_;
  lock.unlock();
  if (wake) ready_.notify_one();
}

std::uint64_t Loader::Ring::lanes() const {
  return options_.lanes.empty() ? options_.end_lane - options_.first_lane : options_.lanes.size();
}

bool Loader::Ring::may_claim() const {
  if (!options_.is_told) return refilling_;
  return refilling_ && !alone_ && claimed_ < (told_before_ + told_.size()) * lanes();
}

void Loader::Ring::announce(std::uint64_t step) {
  {
    const std::lock_guard lock(mutex_);
    told_.push_back(step);
    while (told_before_ + 1 < delivered_ / lanes()) {
      told_.pop_front();
      ++told_before_;
    }
  }
  room_.notify_all();
}

// Skipped batches are filled nevertheless: the threads have filled them ahead by the time of the call.
void Loader::Ring::skip(std::uint64_t steps) {
  for (std::uint64_t i = 0; i < steps * lanes(); ++i) next();
}

// Counts steps over all epochs.
std::uint64_t Loader::Ring::step_of(std::uint64_t number) {
  const std::uint64_t index = number / lanes();
  if (!options_.is_told) return options_.epoch * options_.plan.steps() + options_.step + index;
  const std::lock_guard lock(mutex_);
  DISTBELIEF_INVARIANT(index >= told_before_ && index - told_before_ < told_.size());
  return told_[index - told_before_];
}

std::uint64_t Loader::Ring::lane_of(std::uint64_t number) const {
  const std::uint64_t index = number % lanes();
  return options_.lanes.empty() ? options_.first_lane + index : options_.lanes[index];
}

void Loader::Ring::fill(std::uint64_t number, Batch& batch) {
  const EpochPlan& plan = options_.plan;
  const std::uint64_t lanes = this->lanes();
  const std::uint64_t step = step_of(number);
  const std::uint64_t epoch = step / plan.steps();
  batch.step = step % plan.steps();
  batch.lane = lane_of(number);
  // Constructed per batch, which is cheaper than sharing one between threads.
  const Order order = options_.arrangement == Arrangement::kStreams
                          ? Order(Permutation::streams(plan.samples, plan.batch))
                          : Order({plan, maker_.source().locality(), options_.seed}, epoch);
  order.announce(maker_.source(), {.step = batch.step, .lane = batch.lane, .first = number < lanes});
  maker_.train_batch(order, epoch, plan.lane_range(batch.step, batch.lane), batch);
}

Loader::Loader(const BatchMaker& maker, Options options) : ring_(std::make_unique<Ring>(maker, options)) {}

Loader::~Loader() = default;

const Batch& Loader::next() { return ring_->next(); }

void Loader::skip(std::uint64_t steps) { ring_->skip(steps); }

void Loader::announce(std::uint64_t step) { ring_->announce(step); }

}  // namespace distbelief::data
