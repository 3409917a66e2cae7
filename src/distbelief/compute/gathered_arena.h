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

// Parameters that are in memory only while they are used (ZeRO-3): a private arena with an address for every
// element but memory only for the held blocks. A block is a set of spans; several blocks may share a span. A
// thread may prefetch. Elements that are not held read as zero. Used by one thread.
class GatheredArena {
 public:
  struct Options {
    std::size_t elements = 0;
    std::vector<std::vector<Span>> blocks;  // each span on block boundaries
    // Copies elements from their owners; called from two threads, throws on failure.
    std::function<void(Span from, float* to)> fetch;
  };
  explicit GatheredArena(Options options);
  ~GatheredArena();
  GatheredArena(const GatheredArena&) = delete;
  GatheredArena& operator=(const GatheredArena&) = delete;

  float* data() const { return data_; }
  // Returns when the block's elements are in memory; at once for a held block.
  void hold(int block);
  // Starts to fetch a block that hold() will need soon.
  void prefetch(int block);
  void release(int block);
  void release_all();

  // The most elements that neighbouring blocks take together: the arena's peak memory.
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
  std::map<std::size_t, int> holders_;  // by the begin of a span
  std::vector<bool> held_;
  std::optional<std::vector<Span>> wanted_;  // by the running or pending prefetch
  std::exception_ptr failure_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace distbelief::compute
