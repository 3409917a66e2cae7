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

// Saves checkpoints from a thread of its own, db-checkpoint, so that training goes on while hashes are
// computed and the disk is written. Holds a copy of all that it saves: that much memory more, from the first
// save on. The thread has a low priority. Used by one thread.
//
// Waits for the thread have no deadline: nothing can end a write that the kernel has begun, and a checkpoint
// that is given up because the disk is slow helps nobody. Other workers who wait for this one have theirs,
// and so have the parts of a checkpoint that wait for each other (Store::Options).
class Writer {
 public:
  struct Options {
    std::filesystem::path folder;
    std::size_t keep = 1;  // as in Store::prune
    Store::Options store;  // its functions are called on the writer's thread
  };
  explicit Writer(Options options);
  ~Writer();  // waits for the save in flight

  enum class Kind { kRegular, kBest };
  // Copies the snapshot and returns; the rest happens on the writer's thread: the save and, unless it is of
  // another part than 0, the mark as the best and pruning. One save is in flight: when the one before is
  // still being written, this waits for it. Throws only when there is no memory for the copy.
  void save(const Snapshot& snapshot, Kind kind);
  // The same without a copy, where there is no memory for one: on the caller's thread.
  void save_in_place(const Snapshot& snapshot, Kind kind);

  // How a save ended.
  struct Outcome {
    std::int64_t step = 0;
    std::chrono::duration<double> seconds{};  // on the writer's thread
    bool on_disk = false;                     // a failure may also come after that, from pruning
    std::optional<Error> failure;
  };
  // The oldest outcome that was not yet taken. Never waits; a load of one flag when there is none.
  std::optional<Outcome> take_outcome();

  // Returns when no save is in flight; all outcomes are then there to be taken.
  void wait();

 private:
  void keep(Outcome outcome);
  void run(std::stop_token stop);
  Outcome perform();

  Store store_;
  std::size_t keep_;

  // The save in flight: the caller's while busy_ is false, the thread's while it is true.
  TensorCopy copy_;
  Snapshot snapshot_;
  Kind kind_ = Kind::kRegular;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool busy_ = false;
  std::deque<Outcome> outcomes_;
  std::atomic<bool> has_outcome_{false};
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace distbelief::checkpoint
