#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "distbelief/base/error.h"
#include "distbelief/checkpoint/store.h"
#include "distbelief/checkpoint/tensor_copy.h"

namespace distbelief::checkpoint {

// Saves checkpoints on its own thread, db-checkpoint, so that training continues while hashes are computed
// and the disk is written. Holds a copy of the saved tensors, so it needs that much extra memory from the
// first save on. The thread has a low priority. Used by one thread.
//
// Waits for the thread have no deadline: nothing can stop a write that the kernel has begun, and giving up a
// checkpoint because the disk is slow helps nobody. Other workers that wait for this one have deadlines of
// their own, and so have the parts of a checkpoint that wait for each other (Store::Options).
class Writer {
 public:
  struct Options {
    std::filesystem::path folder;
    std::size_t keep = 1;  // as in Store::prune
    Store::Options store;  // its functions run on the writer's thread
  };
  explicit Writer(Options options);
  ~Writer();  // waits for the save in flight

  enum class Kind { kRegular, kBest };
  // Copies the snapshot and returns. The writer's thread then saves it and, for part 0, marks it as the best
  // and prunes. One save is in flight: blocks while the previous one is being written. Throws only when there
  // is not enough memory for the copy.
  void save(const Snapshot& snapshot, Kind kind);
  // The same on the caller's thread without a copy, for when memory is short.
  void save_in_place(const Snapshot& snapshot, Kind kind);

  // The result of a save.
  struct Outcome {
    std::int64_t step = 0;
    std::chrono::duration<double> seconds{};  // on the writer's thread
    bool on_disk = false;                     // pruning may still fail after that
    std::optional<Error> failure;
  };
  // The oldest outcome not yet taken. Never blocks; costs one atomic load when there is none.
  std::optional<Outcome> take_outcome();

  // Blocks until no save is in flight; take_outcome() then has all outcomes.
  void wait();

 private:
  void keep(Outcome outcome);
  void run(std::stop_token stop);
  Outcome perform();

  Store store_;
  std::size_t keep_;

  // The save in flight: owned by the caller while busy_ is false, by the thread while it is true.
  TensorCopy copy_;
  Snapshot snapshot_;
  Kind kind_ = Kind::kRegular;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool busy_ = false;
  std::deque<Outcome> outcomes_;
  std::atomic<bool> has_outcome_{false};
  std::jthread thread_;  // last: it uses all members above
};

}  // namespace distbelief::checkpoint
