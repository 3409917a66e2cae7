#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "distbelief/data/pipeline/batch.h"

namespace distbelief::data {

// The value of Loader::Options::own_below for a host with so many computing threads: when each core has one,
// waking a loader thread takes a core from it.
std::chrono::nanoseconds own_below(int carriers);

// Delivers the batches of lanes [first_lane, end_lane) step by step and lane by lane, from (epoch, step) on,
// without end (epoch after epoch). Loader threads fill up to `prefetch` batches ahead, then sleep. next()
// blocks until its batch is ready. An exception on a loader thread is thrown by next() in the turn of the
// failed batch, and again by every later call. One consumer thread. Borrows the maker; destruction waits only
// for the batches being filled.
class Loader {
 public:
  struct Options {
    EpochPlan plan;
    std::uint64_t seed = 0;
    Arrangement arrangement = Arrangement::kShuffled;
    std::uint64_t first_lane = 0;
    std::uint64_t end_lane = 1;
    std::vector<std::uint64_t> lanes{};  // if not empty, deliver these lanes instead, in this order
    std::uint64_t epoch = 0;             // first epoch
    std::uint64_t step = 0;              // first step; plan.steps() means the first of the next epoch
    int threads = 1;                     // 0: next() fills the batch on the calling thread
    int prefetch = 8;
    bool is_told = false;  // deliver the steps passed to announce()
    // If a batch typically takes less time than this, next() fills it itself and the threads sleep: on a
    // fully loaded host, waking another thread costs more than the batch.
    std::chrono::nanoseconds own_below{0};
    std::chrono::milliseconds deadline{120'000};  // for one batch; after it next() throws Error(kTimeout)
    int rank = -1;                                // rank of the worker, for messages
  };
  // Throws Error(kBadInput) when there is nothing to deliver, and for invalid `threads` or `prefetch`.
  Loader(const BatchMaker& maker, Options options);
  ~Loader();

  // Queues a step, counted from 0 over all epochs. Call it only when is_told. The lanes of the step are
  // delivered in order.
  void announce(std::uint64_t step);
  // Skips the batches of the next `steps` steps.
  void skip(std::uint64_t steps);
  // Returns the next batch, valid until the call after it. When is_told, the batch belongs to an announced
  // step.
  const Batch& next();

 private:
  class Ring;
  std::unique_ptr<Ring> ring_;
};

}  // namespace distbelief::data
