#pragma once

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include "distbelief/report/run_history.h"
#include "distbelief/report/tensorboard.h"

namespace distbelief::report {

// Keeps report.html of a run folder, and the TensorBoard event files, up to date during the run. Its own
// thread (`db-page`) reads the files that the workers append to. Reports the first disk error on standard
// error; errors never end a run. Made and finished by one thread.
class PageWriter {
 public:
  struct Options {
    std::filesystem::path run_dir;
    double every_seconds = 10;  // 0: only at the end
    bool tensorboard = false;
  };
  explicit PageWriter(Options options);
  ~PageWriter();  // without finish(), the files stay as they are
  PageWriter(const PageWriter&) = delete;
  PageWriter& operator=(const PageWriter&) = delete;

  // Ends the thread and writes both a last time. Blocks until they are written.
  void finish();

 private:
  void follow(const std::stop_token& stop);
  void write(double refresh_seconds);

  Options options_;
  RunHistory history_;
  std::unique_ptr<TensorBoardFile> tensorboard_;
  bool refused_ = false;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace distbelief::report
