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

// Decompressed slices, by number, at most `most_bytes` of them: the one used longest ago goes first. All
// loader threads of a process share it. What was announced is brought by threads of its own, which start with
// the first announcement; what is wanted and not there yet is brought by who wants it. A slice that a reader
// holds lives on after it left the cache.
class SliceCache {
 public:
  using Bytes = std::vector<std::uint8_t>;
  using Slice = std::shared_ptr<const Bytes>;  // shared by the cache and those who read it at the moment

  struct Options {
    std::uint64_t slices = 0;
    std::uint64_t most_bytes = 0;
    int threads = 2;
    // Brings neighbouring slices [begin, end) and hands each over, in any order. Blocks; any thread.
    using Deliver = std::function<void(std::uint64_t number, Bytes bytes)>;
    std::function<void(Range numbers, const Deliver& deliver)> bring;
    std::function<std::uint64_t(std::uint64_t number)> bytes_of;  // decompressed
  };
  explicit SliceCache(Options options);
  ~SliceCache();  // waits for what is being brought

  // Blocks until it is there. What `bring` threw is thrown here; a later call tries again.
  Slice get(std::uint64_t number);

  // [begin, end) are wanted soon, best brought together. Does not block.
  void announce(Range numbers);

  std::uint64_t held_bytes() const;
  std::uint64_t brought() const;  // slices, so far

 private:
  enum class State { kAbsent, kQueued, kComing, kHere, kFailed };
  struct Entry {
    State state = State::kAbsent;
    Slice slice;
    std::exception_ptr failure;
    std::list<std::uint64_t>::iterator used;  // in used_, when it is here
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
  std::vector<Entry> entries_;     // by slice
  std::list<std::uint64_t> used_;  // what is here, used longest ago first
  std::deque<Range> queue_;        // each of neighbours in state kQueued
  std::uint64_t held_bytes_ = 0;   // here or coming
  std::uint64_t brought_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace distbelief::data
