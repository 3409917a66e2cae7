#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "distbelief/data/pipeline/batch.h"

namespace distbelief::data {

// Loader::Options::own_below for a host on which so many threads compute: where each core has one, waking a
// loader thread takes the core from it.
std::chrono::nanoseconds own_below(int carriers);

// Delivers the batches of lanes [first_lane, end_lane) of each step, in order (step by step, lane by
// lane), from (epoch, step) on and for ever (epoch after epoch). Loader threads work ahead by at most
// `prefetch` batches and sleep when that is full; next() blocks until its batch is there. An exception
// on a loader thread is thrown by next(), in the failed batch's turn and again by every later call. One
// consumer thread. Borrows the maker; destruction waits for the batches being filled, no longer.
class Loader {
 public:
  struct Options {
    EpochPlan plan;
    std::uint64_t seed = 0;
    Arrangement arrangement = Arrangement::kShuffled;
    std::uint64_t first_lane = 0;
    std::uint64_t end_lane = 1;
    std::vector<std::uint64_t> lanes{};  // these instead, in this order, when there are any
    std::uint64_t epoch = 0;             // where to start
    std::uint64_t step = 0;              // plan.steps() means the next epoch's first
    int threads = 1;                     // 0: next() fills its batch on the caller's thread
    int prefetch = 8;
    bool is_told = false;  // steps are delivered as they are announced instead
    // A batch that as a rule takes less than this is filled by next() itself and the threads sleep: where
    // every core computes, waking another thread costs more than the batch.
    std::chrono::nanoseconds own_below{0};
    std::chrono::milliseconds deadline{120'000};  // for one batch; then next() throws Error(kTimeout)
    int rank = -1;                                // of the worker, for messages
  };
  // Throws Error(kBadInput) when there is nothing to deliver, or threads or prefetch make no sense.
  Loader(const BatchMaker& maker, Options options);
  ~Loader();

  // A step that will be wanted, counted from 0 over all epochs, after those announced before. Only when
  // is_told. Its lanes are delivered in their order.
  void announce(std::uint64_t step);
  // Passes over the batches of so many steps.
  void skip(std::uint64_t steps);
  // The next batch; valid until the call after it. When is_told, of a step that was announced.
  const Batch& next();

 private:
  class Ring;
  std::unique_ptr<Ring> ring_;
};

}  // namespace distbelief::data
