#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "distbelief/data/pipeline/sampling.h"

namespace distbelief::data {

// Decompressed slices by number, at most `most_bytes` of them, with least-recently-used eviction. All loader
// threads of a process share it. Its own threads load announced slices; they start with the first
// announcement. A thread that needs a missing slice loads it itself. A slice stays valid while a reader holds
// it, even after eviction.
class SliceCache {
 public:
  using Bytes = std::vector<std::uint8_t>;
  using Slice = std::shared_ptr<const Bytes>;  // shared by the cache and current readers

  struct Options {
    std::uint64_t slices = 0;
    std::uint64_t most_bytes = 0;
    int threads = 2;
    // Loads the neighbouring slices `numbers` and passes each to `deliver`, in any order. Blocks; called from
    // any thread.
    using Deliver = std::function<void(std::uint64_t number, Bytes bytes)>;
    std::function<void(Range numbers, const Deliver& deliver)> bring;
    std::function<std::uint64_t(std::uint64_t number)> bytes_of;  // decompressed size
  };
  explicit SliceCache(Options options);
  ~SliceCache();  // waits for loads in progress

  // Blocks until the slice is loaded. Throws the exception of `bring`; a later call tries again.
  Slice get(std::uint64_t number);

  // Queues slices that are needed soon and are best loaded together. Does not block.
  void announce(Range numbers);

  std::uint64_t held_bytes() const;
  std::uint64_t brought() const;  // number of slices loaded so far

 private:
  enum class State { kAbsent, kQueued, kComing, kHere, kFailed };
  struct Entry {
    State state = State::kAbsent;
    Slice slice;
    std::exception_ptr failure;
    std::list<std::uint64_t>::iterator used;  // position in used_ when the state is kHere
  };

  void work(const std::stop_token& stop);
  void start_threads();
  Range take_job(std::uint64_t number);
  void run_job(Range job, std::unique_lock<std::mutex>& lock);
  void make_room(std::uint64_t bytes);
  void deliver(std::uint64_t number, Bytes bytes);
  void touch(Entry& entry);

  Options options_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable_any wanted_;
  std::vector<Entry> entries_;     // by slice number
  std::list<std::uint64_t> used_;  // loaded slices, least recently used first
  std::deque<Range> queue_;        // ranges of neighbours in state kQueued
  std::uint64_t held_bytes_ = 0;   // loaded or loading
  std::uint64_t brought_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace distbelief::data
