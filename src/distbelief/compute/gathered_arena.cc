#include "distbelief/compute/gathered_arena.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "distbelief/base/error.h"

namespace distbelief::compute {

GatheredArena::GatheredArena(Options options)
    : options_(std::move(options)),
      bytes_(std::max<std::size_t>(1, options_.elements) * sizeof(float)),
      held_(options_.blocks.size()) {
  void* place =
      mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED)
    throw Error(ErrorCode::kUnavailable,
                fmt::format("cannot reserve {} bytes of addresses: {}", bytes_, std::strerror(errno)));
  data_ = static_cast<float*>(place);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  pthread_setname_np(thread_.native_handle(), "db-gather");
}

GatheredArena::~GatheredArena() {
  thread_.request_stop();
  changed_.notify_all();
  thread_.join();
  munmap(data_, bytes_);
}

// Requires the lock. Adds a holder to the block's spans and returns the spans that had none.
std::vector<Span> GatheredArena::claim(int block) {
  std::vector<Span> missing;
  held_[std::size_t(block)] = true;
  for (const Span& span : options_.blocks[std::size_t(block)])
    if (holders_[span.begin]++ == 0) missing.push_back(span);
  return missing;
}

void GatheredArena::fetch_all(const std::vector<Span>& spans) {
  for (const Span& span : spans) options_.fetch(span, data_ + span.begin);
}

void GatheredArena::await_prefetch(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [this] { return !wanted_; });
  if (failure_) std::rethrow_exception(failure_);
}

void GatheredArena::hold(int block) {
  std::unique_lock lock(mutex_);
  await_prefetch(lock);
  if (held_[std::size_t(block)]) return;
  const std::vector<Span> missing = claim(block);
  lock.unlock();
  fetch_all(missing);
}

void GatheredArena::prefetch(int block) {
  {
    std::unique_lock lock(mutex_);
    await_prefetch(lock);
    if (held_[std::size_t(block)]) return;
    std::vector<Span> missing = claim(block);
    if (missing.empty()) return;
    wanted_ = std::move(missing);
  }
  changed_.notify_all();
}

void GatheredArena::release(int block) {
  const std::lock_guard lock(mutex_);
  if (!held_[std::size_t(block)]) return;
  held_[std::size_t(block)] = false;
  for (const Span& span : options_.blocks[std::size_t(block)])
    if (--holders_[span.begin] == 0) drop(span);
}

void GatheredArena::release_all() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !wanted_; });
  }
  for (std::size_t block = 0; block < held_.size(); ++block) release(int(block));
}

void GatheredArena::drop(Span span) {
  madvise(data_ + span.begin, span.size() * sizeof(float), MADV_DONTNEED);
}

void GatheredArena::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return wanted_.has_value(); })) {
    const std::vector<Span> spans = *wanted_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      fetch_all(spans);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    wanted_.reset();
    changed_.notify_all();
  }
}

std::size_t GatheredArena::most_held(const std::vector<std::vector<Span>>& blocks) {
  std::size_t most = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::map<std::size_t, std::size_t> here;
    for (std::size_t b = i; b < std::min(i + 2, blocks.size()); ++b)
      for (const Span& span : blocks[b]) here[span.begin] = span.size();
    std::size_t size = 0;
    for (const auto& [begin, count] : here) size += count;
    most = std::max(most, size);
  }
  return most;
}

}  // namespace distbelief::compute
