#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "distbelief/compute/layout.h"

namespace distbelief::compute {

// Parameters that are here only while they are used (ZeRO-3): an arena of this process alone, with an address
// for every element and memory for those of the blocks that are held. A block is a set of spans; several may
// share some. Fetching may begin ahead, on a thread. What is not held reads as zero. Used by one thread.
class GatheredArena {
 public:
  struct Options {
    std::size_t elements = 0;
    std::vector<std::vector<Span>> blocks;  // each span on block boundaries
    // Copies elements from where they live; called from two threads, throws when it cannot.
    std::function<void(Span from, float* to)> fetch;
  };
  explicit GatheredArena(Options options);
  ~GatheredArena();
  GatheredArena(const GatheredArena&) = delete;
  GatheredArena& operator=(const GatheredArena&) = delete;

  float* data() const { return data_; }
  // Returns when the block's elements are here. Nothing to do for one that is held.
  void hold(int block);
  // Begins to fetch a block that is held soon.
  void prefetch(int block);
  void release(int block);
  void release_all();

  // The most that neighbouring blocks take, which is what is here at a time.
  static std::size_t most_held(const std::vector<std::vector<Span>>& blocks);

 private:
  std::vector<Span> claim(int block);
  void fetch_all(const std::vector<Span>& spans);
  void run(const std::stop_token& stop);
  void await_prefetch(std::unique_lock<std::mutex>& lock);
  void drop(Span span);

  Options options_;
  float* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::size_t, int> holders_;  // of the span that begins there
  std::vector<bool> held_;
  std::optional<std::vector<Span>> wanted_;  // by the prefetch that runs or is about to
  std::exception_ptr failure_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace distbelief::compute
