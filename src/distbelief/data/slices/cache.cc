#include "distbelief/data/slices/cache.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <stop_token>
#include <utility>

#include "distbelief/base/error.h"

namespace distbelief::data {
namespace {

constexpr std::chrono::seconds kSliceDeadline{300};  // longer than a depot tries

}  // namespace

SliceCache::SliceCache(Options options) : options_(std::move(options)), entries_(options_.slices) {}

SliceCache::~SliceCache() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

SliceCache::Slice SliceCache::get(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  DISTBELIEF_INVARIANT(number < entries_.size());
  Entry& entry = entries_[number];
  const auto deadline = std::chrono::steady_clock::now() + kSliceDeadline;
  while (entry.state != State::kHere) {
    if (entry.state == State::kFailed) {
      entry.state = State::kAbsent;
      std::rethrow_exception(std::exchange(entry.failure, nullptr));
    }
    if (entry.state == State::kComing) {
      if (arrived_.wait_until(lock, deadline) == std::cv_status::timeout)
        throw Error(ErrorCode::kTimeout,
                    fmt::format("slice {} did not arrive in {} s; see whether its storage is reachable",
                                number, kSliceDeadline.count()));
      continue;
    }
    run_job(take_job(number), lock);
  }
  touch(entry);
  return entry.slice;
}

// Takes the queued range that contains this slice; the slice alone when it was not announced.
Range SliceCache::take_job(std::uint64_t number) {
  const auto found = std::find_if(queue_.begin(), queue_.end(), [number](Range range) {
    return range.begin <= number && number < range.end;
  });
  if (found == queue_.end()) return {number, number + 1};
  const Range job = *found;
  queue_.erase(found);
  return job;
}

void SliceCache::run_job(Range job, std::unique_lock<std::mutex>& lock) {
  std::uint64_t bytes = 0;
  for (std::uint64_t number = job.begin; number < job.end; ++number) {
    entries_[number].state = State::kComing;
    bytes += options_.bytes_of(number);
  }
  make_room(bytes);
  held_bytes_ += bytes;
  lock.unlock();
  std::exception_ptr failure;
  // Tracked apart from the entries: before this job ends, a slice may be delivered, evicted and loading
  // again.
  std::vector<bool> delivered(job.size());
  try {
    options_.bring(job, [&](std::uint64_t number, Bytes slice) {
      deliver(number, std::move(slice));
      delivered[number - job.begin] = true;
    });
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  for (std::uint64_t number = job.begin; number < job.end; ++number) {
    if (delivered[number - job.begin]) continue;
    DISTBELIEF_INVARIANT(failure);
    Entry& entry = entries_[number];
    entry.state = State::kFailed;
    entry.failure = failure;
    held_bytes_ -= options_.bytes_of(number);
  }
  arrived_.notify_all();
}

void SliceCache::deliver(std::uint64_t number, Bytes bytes) {
  auto slice = std::make_shared<const Bytes>(std::move(bytes));
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[number];
  DISTBELIEF_INVARIANT(entry.state == State::kComing);
  entry.slice = std::move(slice);
  entry.state = State::kHere;
  entry.used = used_.insert(used_.end(), number);
  ++brought_;
  arrived_.notify_all();
}

void SliceCache::make_room(std::uint64_t bytes) {
  while (held_bytes_ + bytes > options_.most_bytes && !used_.empty()) {
    Entry& oldest = entries_[used_.front()];
    held_bytes_ -= options_.bytes_of(used_.front());
    used_.pop_front();
    oldest.slice.reset();
    oldest.state = State::kAbsent;
  }
}

void SliceCache::touch(Entry& entry) { used_.splice(used_.end(), used_, entry.used); }

void SliceCache::announce(Range numbers) {
  const std::lock_guard lock(mutex_);
  DISTBELIEF_INVARIANT(numbers.end <= entries_.size());
  bool queued = false;
  for (std::uint64_t at = numbers.begin; at < numbers.end;) {
    if (entries_[at].state == State::kHere) touch(entries_[at]);
    if (entries_[at].state != State::kAbsent) {
      ++at;
      continue;
    }
    const std::uint64_t begin = at;
    for (; at < numbers.end && entries_[at].state == State::kAbsent; ++at)
      entries_[at].state = State::kQueued;
    queue_.push_back({begin, at});
    queued = true;
  }
  if (!queued) return;
  start_threads();
  wanted_.notify_one();
}

void SliceCache::start_threads() {
  if (!threads_.empty() || options_.threads < 1) return;
  for (int i = 0; i < options_.threads; ++i)
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
}

void SliceCache::work(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "db-slices");
  std::unique_lock lock(mutex_);
  while (wanted_.wait(lock, stop, [this] { return !queue_.empty(); })) {
    if (stop.stop_requested()) return;
    const Range job = queue_.front();
    queue_.pop_front();
    if (!queue_.empty()) wanted_.notify_one();
    run_job(job, lock);
  }
}

std::uint64_t SliceCache::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return held_bytes_;
}

std::uint64_t SliceCache::brought() const {
  const std::lock_guard lock(mutex_);
  return brought_;
}

}  // namespace distbelief::data
