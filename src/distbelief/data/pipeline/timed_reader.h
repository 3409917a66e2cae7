#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

#include "distbelief/data/pipeline/batch.h"

namespace distbelief::data {

// Reads ranges of samples on its own thread, so that a source that never answers causes a timeout instead of
// a hang. One consumer. Borrows the maker. A read that timed out may never return; its thread is then
// abandoned, and the maker and its source must stay alive until the process ends.
class TimedReader {
 public:
  struct Options {
    std::chrono::milliseconds deadline{120'000};  // for one range
    int rank = -1;                                // rank of the worker, for messages
  };
  TimedReader(const BatchMaker& maker, const Options& options);
  ~TimedReader();
  TimedReader(const TimedReader&) = delete;
  TimedReader& operator=(const TimedReader&) = delete;

  // Reads samples `range` in index order, without augmentation; the batch is valid until the next call.
  // `step` is for messages. Throws Error(kTimeout), then again on every later call, and the exceptions of the
  // source.
  const Batch& read(Range range, std::int64_t step);

 private:
  struct Desk;
  Options options_;
  bool is_lost_ = false;        // a read timed out
  std::shared_ptr<Desk> desk_;  // shared with the thread, which may outlive the reader
  std::jthread thread_;
};

}  // namespace distbelief::data
