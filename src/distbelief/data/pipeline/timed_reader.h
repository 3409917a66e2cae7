#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

#include "distbelief/data/pipeline/batch.h"

namespace distbelief::data {

// Reads runs of samples on a thread of its own, so that a source that never answers costs a deadline and not
// for ever. One consumer. Borrows the maker. A read that has timed out may never come back: its thread is
// left behind then, and the maker and its source have to stay until the process ends.
class TimedReader {
 public:
  struct Options {
    std::chrono::milliseconds deadline{120'000};  // for one run
    int rank = -1;                                // of the worker, for messages
  };
  TimedReader(const BatchMaker& maker, const Options& options);
  ~TimedReader();
  TimedReader(const TimedReader&) = delete;
  TimedReader& operator=(const TimedReader&) = delete;

  // Samples [range) in index order, without augmentation; valid until the next call. `step` is for messages.
  // Throws Error(kTimeout), from then on every time, and what reading throws.
  const Batch& read(Range range, std::int64_t step);

 private:
  struct Desk;
  Options options_;
  bool is_lost_ = false;        // a read timed out
  std::shared_ptr<Desk> desk_;  // the thread's too, which may outlive the reader
  std::jthread thread_;
};

}  // namespace distbelief::data
